"""Owns everything that a run on this machine starts: Ray's nodes, the warm process, the trainer. `split-ppo run` starts it.

It is a process of its own, in a session of its own, so that what a terminal or a shell does to `split-ppo run` reaches
it in one way alone: its standard input. A line asks it to stop; the end of input means that `split-ppo run` is gone,
killed even, and stops it as well. However it ends, it ends everything with it; should it be killed itself, Ray's
processes die with it and the next run ends the rest (see `leftovers`).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from split_ppo_trainer import warm, warm_worker
from split_ppo_trainer.__main__ import read_plan
from split_ppo_trainer.driver import job_environment
from split_ppo_trainer.failures import EXIT_MOVED, RunFailure, bad_input
from split_ppo_trainer.inotify import FolderWatch
from split_ppo_trainer.inputs import check_inputs
from split_ppo_trainer.leftovers import SHARED_MEMORY, Estate, end_abandoned
from split_ppo_trainer.local_nodes import LocalNode, TooFewGpus, gpus_of_machine, local_nodes, object_store_bytes
from split_ppo_trainer.progress import JsonlFiles, Progress, append_line
from split_ppo_trainer.ray_start import AGENT_PORTS, RAY_ENVIRONMENT, free_ports, start_patiently
from split_ppo_trainer.summary import write_summary

STOP, STOP_NOW = b"stop\n", b"stop now\n"
STOPPED = 130
GRACE_SECONDS = 20.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Stopped(BaseException):
    """Asked to stop. Not an Exception, so that nothing on the way takes it for a failure."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m split_ppo_trainer.supervisor")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    progress = Progress([JsonlFiles(arguments.output)])
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for run in end_abandoned():
        print(f"ended what run {run} had left behind", flush=True)
    estate = Estate.found(owner=os.getpid())
    os.environ.update(estate.environment)
    supervisor = Supervisor(arguments.plan, arguments.output, estate, progress)
    tell(arguments.output, {"event": "attempt", "resumed": arguments.resume})
    code = 1
    try:
        listen(supervisor)
        code = attempt(supervisor, resume=arguments.resume)
    except Stopped:
        code = STOPPED
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # it is ending already
        if supervisor.stopping.is_set() and code != 0:
            code = STOPPED  # the trainer's death may be seen before the signal of the request that it died of
        supervisor.close(keep_logs=code not in (0, STOPPED, EXIT_MOVED))
        supervisor.finish(code)
    return code


def attempt(supervisor: Supervisor, *, resume: bool) -> int:
    """The exit code; what went wrong is told. Stopped may come out of anywhere in here, the telling too."""
    try:
        return supervisor.run(resume=resume)
    except RunFailure as failure:
        supervisor.progress.error(failure.reason, failure.message)
        return failure.exit_code
    except Exception as problem:
        import traceback

        traceback.print_exc()
        supervisor.progress.error("RayFailed", f"Ray could not be started on this machine: {first_line(problem)}")
        return 1


def tell(output: Path, event: dict[str, Any]) -> None:
    """Events of the run as a whole, which no trainer lives long enough to tell."""
    append_line(output / "events.jsonl", {"time": time.time(), **event})


class Supervisor:
    """One run, from Ray's start to the last process' end."""

    def __init__(self, plan_file: Path, output: Path, estate: Estate, progress: Progress) -> None:
        self.plan_file, self.output = plan_file, output
        self.estate, self.progress = estate, progress
        self.stopping = threading.Event()
        self._finishing, self._finished = threading.Lock(), False
        self._cluster: Any = None
        self._trainer: subprocess.Popen[bytes] | None = None

    def run(self, *, resume: bool) -> int:
        """The trainer's exit code."""
        self.plan = read_plan(self.plan_file, self.output)
        check_inputs(self.plan.verl)  # the trainer does it too, but only when Ray is up
        nodes = self._nodes()
        names = ", ".join(node.name for node in nodes)
        self.progress.stage("ray", f"Starting Ray on this machine: {names}.")
        environment = {**os.environ, **RAY_ENVIRONMENT, **job_environment(self.plan, os.environ)}
        os.environ.update(environment)
        threading.Thread(target=self._note_shared_memory, daemon=True).start()
        workers = self._warm() if self.plan.placement.device == "CPU" else {}
        started = time.monotonic()
        self._start_ray(nodes, workers)
        self.progress.stage("ray", f"Ray is up after {time.monotonic() - started:.0f} s; starting the trainer.")
        return self._train(resume=resume)

    def stop(self, *, at_once: bool) -> None:
        """From any thread: makes `run` raise Stopped in the main one, before it can see what dies of the end at once."""
        if not self.stopping.is_set():
            self.stopping.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        if at_once:
            self.estate.end(patience=0)
            self.finish(STOPPED)
            os._exit(STOPPED)

    def finish(self, code: int) -> None:
        """Say how it ended, once: the end at once and the end in peace may meet."""
        with self._finishing:
            if self._finished:
                return
            outcome = {0: "Succeeded", STOPPED: "Stopped", EXIT_MOVED: "Moved"}.get(code, "Failed")
            tell(self.output, {"event": "end", "outcome": outcome, "exit_code": code})
            write_summary(self.output)
            self._finished = True

    def close(self, *, keep_logs: bool) -> None:
        """End everything. Whoever has waited for the trainer's own end has waited long enough."""
        self.stopping.set()
        self.estate.note_shared_memory()
        if self._trainer is not None and self._trainer.poll() is None:
            self._trainer.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._trainer.wait(GRACE_SECONDS)
        if keep_logs:
            self._keep_logs()
        self.estate.end()
        warm.reap()  # what lost its parent became our child

    def _nodes(self) -> list[LocalNode]:
        placement = self.plan.placement
        count = 1 + sum(pool.nodes for pool in placement.pools)
        free = shutil.disk_usage(SHARED_MEMORY).free
        store = object_store_bytes(shared_memory_free=free, nodes=count, device=placement.device)
        try:
            return local_nodes(placement, gpus=gpus_of_machine(os.environ, gpu_listing()), object_store=store)
        except TooFewGpus as problem:
            raise bad_input(str(problem)) from None

    def _warm(self) -> dict[str, str]:
        """Start the process that forks workers; returns what Ray's nodes have to be told."""
        from ray._private import workers

        address = self.estate.folder / "warm"
        os.environ[warm_worker.SOCKET] = str(address)
        os.environ[warm_worker.FALLBACK] = str(Path(workers.__file__).with_name("setup_worker.py"))
        os.environ[warm_worker.JOB] = warm.FIRST_JOB
        subprocess.Popen(
            [sys.executable, "-m", warm.__name__, str(address)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "RAY_JOB_ID": warm.FIRST_JOB, "RAY_RAYLET_PID": str(os.getpid())},
            preexec_fn=die_with_parent,
        )
        return {"setup_worker_path": warm_worker.__file__}

    def _start_ray(self, nodes: list[LocalNode], workers: dict[str, str]) -> None:
        from ray.cluster_utils import Cluster

        logging.getLogger("ray._private.services").setLevel(logging.CRITICAL)  # it complains of the dashboard
        start_patiently()
        self._cluster = Cluster()
        for node in nodes:
            self._cluster.add_node(
                wait=False,
                num_cpus=node.cpus,
                num_gpus=node.gpus,
                resources=dict(node.resources),
                labels=dict(node.labels),
                env_vars=dict(node.environment) or None,
                object_store_memory=node.object_store,
                include_dashboard=False,
                no_monitor=True,  # nothing here is scaled
                **dict(zip(AGENT_PORTS, free_ports(len(AGENT_PORTS)), strict=True)),
                **workers,
            )

    def _train(self, *, resume: bool) -> int:
        command = [
            sys.executable,
            "-m",
            "split_ppo_trainer",
            "--plan",
            str(self.plan_file),
            "--output",
            str(self.output),
        ]
        self._trainer = subprocess.Popen(
            command + (["--resume"] if resume else []),
            stdin=subprocess.DEVNULL,
            env={**os.environ, "RAY_ADDRESS": self._cluster.address, "PYTHONUNBUFFERED": "1"},
            preexec_fn=die_with_parent,
        )
        return self._trainer.wait()

    def _note_shared_memory(self) -> None:
        """Whenever something appears in /dev/shm, while its maker certainly lives: afterwards nobody can tell whose it was."""
        watch = FolderWatch(SHARED_MEMORY)
        while not self.stopping.is_set():
            watch.wait()
            self.estate.note_shared_memory()

    def _keep_logs(self) -> None:
        """Ray's own logs, which would go with its folder, beside the run's."""
        source, target = self.estate.folder / "ray" / "session_latest" / "logs", self.output / "ray-logs"
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            with contextlib.suppress(shutil.Error):
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.sock"), ignore_dangling_symlinks=True)


def listen(supervisor: Supervisor) -> None:
    """Obey standard input and SIGTERM."""

    def raise_stopped(signum: int, frame: Any) -> NoReturn:
        raise Stopped

    def terminated(signum: int, frame: Any) -> None:
        supervisor.stop(at_once=False)

    def read() -> None:
        for line in requests(sys.stdin.buffer):
            supervisor.stop(at_once=line == STOP_NOW)

    signal.signal(signal.SIGUSR1, raise_stopped)
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=read, daemon=True).start()


def requests(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines, and at the end one more request to stop: whoever wrote them is gone."""
    yield from stream
    yield STOP


def gpu_listing() -> str:
    """What nvidia-smi lists; nothing where there is none."""
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def first_line(problem: BaseException) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread is reading standard input, which Python would wait for
