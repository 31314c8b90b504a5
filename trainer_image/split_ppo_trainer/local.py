"""`split-ppo run` on this machine: starts the supervisor, shows what it writes, passes on what the user wants.

This process owns nothing but the terminal. Everything that trains belongs to the supervisor, which stops when this
process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from split_ppo.runplan import RunPlan
from split_ppo_trainer.display import Display, curve, display_for, placement_table, summary_table
from split_ppo_trainer.failures import EXIT_MOVED
from split_ppo_trainer.inotify import FolderWatch
from split_ppo_trainer.leftovers import end_abandoned
from split_ppo_trainer.progress import NEXT_PLAN, last_error
from split_ppo_trainer.summary import attempts_from, read_lines, read_steps, summarise, write_summary
from split_ppo_trainer.supervisor import STOP, STOP_NOW, STOPPED


class FolderProblem(Exception):
    """The output folder can't be used; the message is for the user."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run and the files in it."""

    path: Path

    @classmethod
    def choose(cls, wanted: Path | None, *, name: str, resume: bool) -> RunFolder:
        """The folder asked for, else runs/NAME, numbered so that no run overwrites another."""
        if wanted is None:
            folders = [cls(Path("runs") / (name if number == 1 else f"{name}-{number}")) for number in range(1, 1000)]
            used = [folder for folder in folders if folder.used]
            folder = (used[-1] if used else folders[0]) if resume else next(f for f in folders if not f.used)
        else:
            folder = cls(wanted)
        if resume and not folder.used:
            raise FolderProblem(
                f"There is no run in {folder.path} to resume: leave --resume out, or name its folder with --output."
            )
        if not resume and folder.used:
            raise FolderProblem(
                f"{folder.path} holds a run already: continue it with --resume, or name another folder with --output."
            )
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FolderProblem(f"{folder.path} can't be made: {(problem.strerror or str(problem)).lower()}.") from None
        return cls(folder.path.resolve())

    @property
    def used(self) -> bool:
        return self.events.exists()

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def log(self) -> Path:
        return self.path / "run.log"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def write_reward(self, source: str) -> str:
        """A reward function that came in a ConfigMap, as the file verl wants."""
        target = self.path / "reward.py"
        target.write_text(source)
        return str(target)


def train(plan: RunPlan, folder: RunFolder, *, resume: bool, curve: bool = False) -> int:
    """Run the plan to its end; returns the exit code for the shell."""
    console = Console(highlight=False)
    if problem := wrong_flavour(plan.placement.device, metadata.version("vllm")):
        print(problem, file=sys.stderr)
        return 2
    lock = os.open(folder.path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(
            f"Another run is writing to {folder.path}: wait for it, or name another folder with --output.",
            file=sys.stderr,
        )
        return 2
    folder.plan.write_text(plan.to_json())
    console.print(f"{plan.job.name}: {describe(plan)}", markup=False)
    console.print(f"Everything goes to {folder.path}", markup=False, soft_wrap=True)
    code = supervise(folder, display_for(console), resume=resume)
    while code == EXIT_MOVED:
        (folder.path / NEXT_PLAN).replace(folder.plan)
        code = supervise(folder, display_for(console), resume=True)
    show_end(console, folder, code, draw=curve)
    return code


def wrong_flavour(device: str, vllm: str) -> str | None:
    """vLLM is built for the CPU or for GPUs, never for both; a sentence if it is not the one that the job needs."""
    built_for = "CPU" if "cpu" in vllm else "GPU"
    if built_for == device:
        return None
    return (
        f"The job has device: {device} and the vLLM in this environment ({vllm}) is built for the {built_for}. In a "
        f"checkout: make install-trainer TRAINER_FLAVOUR={device.lower()}."
    )


def describe(plan: RunPlan) -> str:
    """`actor 1 + critic 1 slots, overlap NextGeneration`."""
    placement = plan.placement
    unit = "GPUs" if placement.device == "GPU" else "CPU slots"
    pools = " + ".join(f"{pool.name} {pool.world_size}" for pool in placement.pools)
    overlap = f", overlap {plan.overlap}" if placement.mode == "Split" else ""
    return f"{placement.mode}, {pools} {unit}{overlap}"


def supervise(folder: RunFolder, display: Display, *, resume: bool) -> int:
    """Start the supervisor and show its events until it ends."""
    seen = folder.events.stat().st_size if folder.events.exists() else 0
    command = [
        sys.executable,
        "-m",
        "split_ppo_trainer.supervisor",
        "--plan",
        str(folder.plan),
        "--output",
        str(folder.path),
    ]
    with folder.log.open("ab") as log:
        supervisor = subprocess.Popen(
            command + (["--resume"] if resume else []),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's Ctrl-C is for this process, which then asks
        )
    obey_signals(supervisor, display)
    try:
        for event in follow(folder, supervisor, offset=seen):
            display.show(event)
    finally:
        display.close()
    code = supervisor.wait()
    if code < 0:
        end_abandoned()
        write_summary(folder.path)
        print(
            f"The run's supervisor was killed ({signal.Signals(-code).name}); what it had started is ended.",
            file=sys.stderr,
        )
        return 1
    return code


def obey_signals(supervisor: subprocess.Popen[bytes], display: Display) -> None:
    asked = False

    def stop(signum: int, frame: Any) -> None:
        nonlocal asked
        display.say("Stopping at once." if asked else "Stopping. Again to stop at once.")
        request, asked = (STOP_NOW if asked else STOP), True
        assert supervisor.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is at its end already
            os.write(supervisor.stdin.fileno(), request)  # not by its buffer, which a second signal would find in use

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def follow(folder: RunFolder, supervisor: subprocess.Popen[bytes], *, offset: int) -> Iterator[dict[str, Any]]:
    """Events as they are written, until the supervisor has ended and all of them are read."""
    watch = FolderWatch(folder.path)
    ended = os.pidfd_open(supervisor.pid)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    poll.register(ended, select.POLLIN)
    rest = b""
    try:
        over = False
        while not over:
            ready = {descriptor for descriptor, _ in poll.poll()}
            over = ended in ready
            if watch.fileno() in ready:
                watch.wait()
            if folder.events.exists():
                with folder.events.open("rb") as events:
                    events.seek(offset)
                    part = events.read()
                offset += len(part)
                *lines, rest = (rest + part).split(b"\n")
                yield from (json.loads(line) for line in lines)
    finally:
        os.close(ended)
        watch.close()


def show_end(console: Console, folder: RunFolder, code: int, *, draw: bool) -> None:
    """A table of what was done, the error in a sentence, and where everything is."""
    events = read_lines(folder.events)
    steps = read_steps(folder.metrics)
    summary = summarise(steps, attempts_from(events))
    if draw:
        places = [event for event in events if event["event"] == "placement"]
        if places:
            console.print()
            console.print(placement_table(places[-1]["workers"]))
        rewards = {step.number: step.reward for step in steps if step.reward is not None}
        console.print(f"\n[bold]Mean reward[/bold], steps 1 to {len(rewards)}")
        console.print("\n".join(curve([rewards[number] for number in sorted(rewards)])), markup=False)
    if summary.steps:
        console.print()
        console.print(summary_table(summary))
        console.print()
    else:
        console.print("No step was finished.")
    console.print(files_line(folder), markup=False, soft_wrap=True)
    if code == STOPPED:
        console.print(f"Stopped. Continue with: --output {folder.path} --resume", markup=False, soft_wrap=True)
    elif code:
        reason, message = last_error(folder.path) or (
            "Failed",
            "The trainer ended without saying why; its log may know.",
        )
        console.print(f"\n{reason}: {message}\nAll there is to know is in {folder.log}", markup=False, soft_wrap=True)


def files_line(folder: RunFolder) -> str:
    files = [folder.metrics, folder.plan, folder.summary, folder.checkpoints, folder.log]
    return f"{folder.path}: " + ", ".join(file.name for file in files if file.exists())
