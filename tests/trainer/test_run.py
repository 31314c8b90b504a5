"""`split-ppo run` as a user starts it: real training, its files, its end. Also every way in which it may be ended.

Two runs side by side serve most of these tests: one goes to its end, the other is killed in the middle and resumed.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import SAME

from split_ppo_trainer import leftovers
from split_ppo_trainer.__main__ import parse_plan
from split_ppo_trainer.checkpoints import find_all
from split_ppo_trainer.leftovers import SHARED_MEMORY, held_inodes, process_parents, with_descendants
from split_ppo_trainer.room import checkpoint_bytes
from split_ppo_trainer.summary import read_lines
from split_ppo_trainer.supervisor import STOP, STOP_NOW, STOPPED
from split_ppo_trainer.toy import materialise

pytestmark = pytest.mark.trainer

JOB = """\
apiVersion: splitppo.io/v1alpha1
kind: SplitPPOJob
metadata: {name: tiny}
spec:
  placement:
    device: CPU
    pools: {actor: {gpusPerNode: 1}, critic: {gpusPerNode: 1}}
  training:
    model: {actor: toy://digits/model}
    data: {train: [toy://digits/train.parquet], maxPromptLength: 64, maxResponseLength: 8}
    reward: {function: {configMap: mine}}
    batchSize: 8
    miniBatchSize: 8
    microBatchSizePerGPU: 8
    learningRate: {actor: 1e-3, critic: 1e-3}
    steps: 7
    config: {actor_rollout_ref: {rollout: {max_model_len: 128, max_num_seqs: 16}}}
  storage: {everySteps: 2, keep: 2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: mine}
data:
  reward.py: |
    def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
        return sum(c.isdigit() for c in solution_str) / max(len(solution_str), 1)
"""


Happened = Callable[[dict[str, Any]], bool]


class Command:
    """A `split-ppo run` under way."""

    def __init__(self, job: Path, output: Path, *options: str) -> None:
        self.output = output
        self._said = output.with_suffix(".said")
        command = [sys.executable, "-m", "split_ppo", "run", str(job), "--output", str(output), *options]
        with self._said.open("w") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def until(self, happened: Happened) -> None:
        """Wait for an event; fails if the run ends without it."""
        ended = threading.Event()
        threading.Thread(target=lambda: (self.process.wait(), ended.set()), daemon=True).start()
        while not any(happened(event) for event in read_lines(self.output / "events.jsonl")):
            assert not ended.wait(0.1), self.said

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def supervisor(self) -> int:
        """Its process: the one that has this command for a parent."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def run_id(self) -> str:
        """The mark that its processes carry."""
        folders = {f.name: leftovers.Estate(f).owner() for f in leftovers.HOME.iterdir()}
        supervisor = self.supervisor()
        return next(name for name, owner in folders.items() if owner is not None and owner.pid == supervisor)


def ray_is_up(event: dict[str, Any]) -> bool:
    return event.get("stage") == "ray" and event["message"].startswith("Ray is up")


def a_step_is_done(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "step")


Family = dict[int, str | None]


def family_of(supervisor: int) -> Family:
    """The processes a supervisor has started, with their start times, which tell them from later ones of the same number."""
    family = with_descendants({supervisor}, process_parents())
    return {pid: leftovers.start_time(pid) for pid in family}


def survivors(family: Family) -> list[int]:
    """Those that live on; one that is killed and dying has half a minute to be gone."""

    def alive() -> list[int]:
        return [pid for pid, started in family.items() if started is not None and leftovers.start_time(pid) == started]

    deadline = time.monotonic() + 30
    while (left := alive()) and time.monotonic() < deadline:
        leftovers.wait_for_any(left, seconds=1)
    return left


def wait_until_gone(pid: int) -> None:
    while leftovers.start_time(pid) is not None:
        leftovers.wait_for_any([pid], seconds=60)


def orphans() -> set[tuple[str, int]]:
    """Files in /dev/shm that no process holds. Other people's processes may come and go meanwhile."""
    held = {inode for pid in process_parents() for inode in held_inodes(pid)}
    return {(entry.name, entry.inode()) for entry in os.scandir(SHARED_MEMORY) if entry.inode() not in held}


def litter() -> set[str]:
    """What verl and vLLM would leave in /tmp, had a run no place of its own for it: sockets, locks, meeting points."""
    names = {entry.name for entry in os.scandir("/tmp")}
    return {
        name
        for name in names
        if re.search(r"rl-colocate|^ckpt_\w+\.lock$|^vllm_dist_|^[0-9a-f]{8}(-[0-9a-f]+){4}$", name)
    }


def beside_each_other(runs: tuple[Command, Command]) -> bool:
    """Whether each had its Ray cluster before the other was at its end."""
    spans = []
    for run in runs:
        events = read_lines(run.output / "events.jsonl")
        spans.append((next(event["time"] for event in events if ray_is_up(event)), events[-1]["time"]))
    return max(began for began, _ in spans) < min(ended for _, ended in spans)


def curve(output: Path) -> dict[int, dict[str, float]]:
    """What has to be the same, step by step, however often a run was interrupted."""
    lines = read_lines(output / "metrics.jsonl")
    return {line["step"]: {name: line["metrics"][name] for name in SAME} for line in lines}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("job") / "job.yaml"
    file.write_text(JOB)
    return file


@pytest.fixture(scope="module")
def runs(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, Command]]:
    """Side by side: one to its end, the other killed with SIGKILL after its first checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    before = litter()
    whole, killed = (Command(job, folder / name) for name in ("whole", "killed"))
    try:
        killed.until(lambda event: event.get("event") == "step" and event["step"] == 3)
        run_id, supervisor = killed.run_id(), killed.supervisor()
        family = family_of(supervisor)
        assert len(family) > 10
        killed.process.kill()
        killed.process.wait()
        wait_until_gone(supervisor)
        assert survivors(family) == []
        assert not (leftovers.HOME / run_id).exists()
        whole.process.wait()
        assert litter() <= before
        yield whole, killed
    finally:
        for command in (whole, killed):
            command.process.terminate()
            command.process.wait()


def test_a_run_ends_well_and_leaves_its_files(runs: tuple[Command, Command]) -> None:
    whole, _ = runs
    assert whole.process.returncode == 0, whole.said
    assert [line["step"] for line in read_lines(whole.output / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6, 7]
    assert json.loads((whole.output / "plan.json").read_text())["placement"]["mode"] == "Split"
    summary = json.loads((whole.output / "summary.json").read_text())
    assert summary["steps"] == 7
    assert summary["reward"]["first"] is not None
    assert summary["overlap_efficiency"] > 0
    assert {"gen", "values", "old_log_prob", "update_actor", "update_critic", "step"} <= summary[
        "median_seconds"
    ].keys()
    for pool in ("actor", "critic"):
        assert summary["pools"][pool].keys() == {"busy_share", "memory_gb", "tokens_per_s", "wait_s"}
    assert [attempt["outcome"] for attempt in summary["attempts"]] == ["Succeeded"]
    assert {path.name for path in (whole.output / "checkpoints").glob("global_step_*")} == {
        "global_step_6",
        "global_step_7",
    }
    assert "verl" in (whole.output / "run.log").read_text()


def test_both_were_up_at_the_same_time(runs: tuple[Command, Command]) -> None:
    assert beside_each_other(runs)


def test_what_it_says_has_the_steps_and_the_files(runs: tuple[Command, Command]) -> None:
    said = runs[0].said
    for expected in (
        "Split, actor 1 + critic 1 CPU slots",
        "step 7/7  reward",
        "overlap",
        "critic busy",
        "metrics.jsonl",
        "run.log",
    ):
        assert expected in said


def test_the_critic_sat_on_the_critics_node(runs: tuple[Command, Command]) -> None:
    [placement] = [event for event in read_lines(runs[0].output / "events.jsonl") if event["event"] == "placement"]
    resources = {worker["role"]: worker["resource"] for worker in placement["workers"]}
    assert resources["ActorRollout"] == "actor_pool"
    assert resources["Critic"] == "critic_pool"


def test_workers_were_forked(runs: tuple[Command, Command]) -> None:
    assert "warm: ready" in (runs[0].output / "run.log").read_text()


def test_a_killed_run_resumes_to_the_same_curve(job: Path, runs: tuple[Command, Command]) -> None:
    whole, killed = runs
    before = orphans()
    seen = curve(killed.output)
    assert 3 in seen
    # As a kill in the middle of a checkpoint would leave it.
    (killed.output / "checkpoints" / ".saving-5" / "global_step_5" / "actor").mkdir(parents=True)
    resumed = Command(job, killed.output, "--resume")
    assert resumed.process.wait() == 0, resumed.said
    assert orphans() <= before
    expected = curve(whole.output)
    assert list(curve(killed.output)) == list(expected) == list(range(1, 8))
    for step, metrics in curve(killed.output).items():
        assert metrics == pytest.approx(expected[step], rel=1e-4, abs=1e-6), step
    assert all(metrics == pytest.approx(expected[step], rel=1e-4, abs=1e-6) for step, metrics in seen.items())
    assert not list((killed.output / "checkpoints").glob(".*"))
    first, second = json.loads((killed.output / "summary.json").read_text())["attempts"]
    assert (first["outcome"], second["outcome"], second["resumed"]) == ("Stopped", "Succeeded", True)
    assert second["first_step"] in (3, 5, 7), "the step after a checkpoint"


def test_the_least_a_checkpoint_takes_is_known_before_and_close(runs: tuple[Command, Command]) -> None:
    output = runs[0].output
    settings = parse_plan(output / "plan.json").verl
    settings = materialise(settings, output / "checkpoints" / "toys")
    [*_, newest] = find_all(output / "checkpoints")
    written = sum(file.stat().st_size for file in newest.path.rglob("*.pt"))
    least = checkpoint_bytes(settings, critic=True)
    assert least <= written <= 1.1 * least


def test_a_folder_with_a_run_is_not_overwritten(job: Path, runs: tuple[Command, Command]) -> None:
    again = subprocess.run(
        [sys.executable, "-m", "split_ppo", "run", job, "--output", runs[0].output], capture_output=True, text=True
    )
    assert again.returncode == 2
    assert "holds a run already: continue it with --resume" in again.stderr


@pytest.mark.parametrize(
    ("happened", "signals"),
    [(a_step_is_done, [signal.SIGINT]), (ray_is_up, [signal.SIGTERM] * 2)],
    ids=["in the middle", "twice at the start"],
)
def test_ctrl_c_ends_everything_and_twice_at_once(
    job: Path, tmp_path: Path, happened: Happened, signals: list[signal.Signals]
) -> None:
    before = orphans(), litter()
    command = Command(job, tmp_path / "stopped", "--steps", "1000")
    command.until(happened)
    run_id, family = command.run_id(), family_of(command.supervisor())
    for number in signals:
        command.send(number)
        while "Stopping" not in command.said:
            threading.Event().wait(0.05)
    assert command.process.wait() == 130, command.said
    assert survivors(family) == []
    assert not (leftovers.HOME / run_id).exists()
    assert orphans() <= before[0]
    assert litter() <= before[1]
    assert "Stopped. Continue with: --output" in command.said
    [attempt] = json.loads((command.output / "summary.json").read_text())["attempts"]
    assert attempt["outcome"] == "Stopped"


def test_an_end_at_once_is_no_failure_even_if_nothing_was_asked_before(job: Path, tmp_path: Path) -> None:
    """Two signals close to each other may ask in the wrong order: the trainer's death is then seen before the first."""
    command = Command(job, tmp_path / "stopped")
    command.until(ray_is_up)
    Path(f"/proc/{command.supervisor()}/fd/0").write_bytes(STOP_NOW + STOP)
    assert command.process.wait() == STOPPED, command.said
    ends = [event for event in read_lines(command.output / "events.jsonl") if event["event"] == "end"]
    assert [end["outcome"] for end in ends] == ["Stopped"]


def test_what_a_killed_supervisor_leaves_is_ended(job: Path, tmp_path: Path) -> None:
    command = Command(job, tmp_path / "orphaned")
    command.until(ray_is_up)
    run_id, family = command.run_id(), family_of(command.supervisor())
    os.kill(command.supervisor(), signal.SIGKILL)
    assert command.process.wait() == 1
    assert survivors(family) == []
    assert not (leftovers.HOME / run_id).exists()
    assert "supervisor was killed (SIGKILL)" in command.said


def test_what_nobody_was_left_to_end_the_next_run_ends(job: Path, tmp_path: Path) -> None:
    before = orphans()
    command = Command(job, tmp_path / "abandoned")
    command.until(ray_is_up)
    run_id, supervisor = command.run_id(), command.supervisor()
    family = family_of(supervisor)
    command.send(signal.SIGSTOP)  # neither may see the other die
    os.kill(supervisor, signal.SIGKILL)
    command.process.kill()
    command.process.wait()
    assert (leftovers.HOME / run_id).exists()
    bad = tmp_path / "bad.yaml"
    bad.write_text(JOB.replace("toy://digits/model", "/nowhere/model"))
    assert Command(bad, tmp_path / "next").process.wait() == 2
    assert survivors(family) == []
    assert not (leftovers.HOME / run_id).exists()
    assert orphans() <= before


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("toy://digits/model", "/nowhere/model", "The actor's model /nowhere/model is not a folder"),
        ("toy://digits/train", "toy://digits/tain", "names no file of that toy"),
        ("name: mine}\ndata", "name: other}\ndata", "ConfigMap mine, which is not in"),
        ("batchSize: 8\n", "batchSize: 8\n    steps: 3\n", "stands twice"),
        ("device: CPU", "device: GPU", "is built for the CPU. In a checkout: make install-trainer"),
    ],
)
def test_bad_input_is_a_sentence_and_code_2(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in JOB
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace(old, new, 1))
    command = Command(file, tmp_path / "bad")
    assert command.process.wait() == 2, command.said
    assert sentence in command.said
    assert "Traceback" not in command.said
