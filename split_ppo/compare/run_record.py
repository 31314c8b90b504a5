"""A run as its folder tells it: the plan, and each step with its pieces."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from split_ppo.placement.exchange import Machine
from split_ppo.placement.splits import split_name
from split_ppo.runplan import RunPlan
from split_ppo_trainer.moments import BEGAN
from split_ppo_trainer.pool_load import by_pool, by_worker
from split_ppo_trainer.summary import number, read_lines

TIMING = "timing_s/"


class NotARun(Exception):
    """The folder holds no run that can be read; the message is for the user."""


@dataclass(frozen=True)
class StepRecord:
    """One step: seconds of its pieces, when each began (empty in runs of before that was written), its pools and workers."""

    number: int
    reward: float | None
    seconds: Mapping[str, float]
    began: Mapping[str, float]
    efficiency: float | None
    pools: Mapping[str, Mapping[str, float]]
    workers: Mapping[str, Mapping[str, Mapping[str, float]]]

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> "StepRecord":
        metrics: Mapping[str, Any] = line["metrics"]

        def under(prefix: str) -> dict[str, float]:
            found = {name.removeprefix(prefix): number(v) for name, v in metrics.items() if name.startswith(prefix)}
            return {name: value for name, value in found.items() if value is not None}

        return cls(
            number=int(line["step"]),
            reward=number(metrics.get("critic/score/mean")),
            seconds=under(TIMING),
            began=under(BEGAN),
            efficiency=number(metrics.get("split/overlap_efficiency")),
            pools=by_pool(metrics),
            workers=by_worker(metrics),
        )

    def untimed(self) -> "StepRecord":
        """What it learned, without what it took."""
        return replace(self, seconds={}, began={}, efficiency=None, pools={}, workers={})

    @property
    def step(self) -> float | None:
        """Seconds of the step without the writing of a checkpoint."""
        whole = self.seconds.get("step")
        return None if whole is None else whole - self.seconds.get("save_checkpoint", 0.0)


@dataclass(frozen=True)
class RunRecord:
    """A run. On GPUs nothing is told of the machine."""

    name: str
    plan: RunPlan
    steps: tuple[StepRecord, ...]
    machine: Machine = field(default_factory=Machine)

    @property
    def title(self) -> str:
        """`actor 1 + critic 1, NextGeneration`, or `Colocated 2`."""
        split = split_name(self.plan.placement)
        return split if self.plan.placement.mode == "Colocated" else f"{split}, {self.plan.overlap}"


def read_run(folder: Path, name: str | None = None) -> RunRecord:
    """The run in a folder that `split-ppo run` or the trainer wrote."""
    if not folder.is_dir():
        raise NotARun(f"There is no folder {folder}.")
    try:
        plan = RunPlan.model_validate_json((folder / "plan.json").read_text())
    except FileNotFoundError:
        raise NotARun(f"{folder} has no plan.json: it is not the folder of a run (split-ppo run --output).") from None
    except ValidationError as problem:
        raise NotARun(f"{folder / 'plan.json'} is not a plan: {problem.errors()[0]['msg']}.") from None
    try:
        lines = read_lines(folder / "metrics.jsonl")
    except json.JSONDecodeError as problem:
        raise NotARun(f"{folder / 'metrics.jsonl'} has a line that is not JSON: {problem}.") from None
    # A step done again after a resume counts as it was done last, and where a run has moved to another split, the seconds of
    # steps before that say nothing about the plan that is there now.
    try:
        events = read_lines(folder / "events.jsonl")
        moved = max((int(event["step"]) for event in events if event["event"] == "move"), default=0)
        machine = Machine.newest(events) or Machine()
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise NotARun(f"{folder / 'events.jsonl'} has a line that is no event of a run: {problem!r}.") from None
    records = [StepRecord.from_line(line) for line in lines]
    steps = {step.number: step if step.number > moved else step.untimed() for step in records}
    if not steps:
        raise NotARun(f"{folder} has no finished step: there is nothing to compare.")
    if moved and max(steps) <= moved:
        raise NotARun(
            f"{folder} moved to another split at step {moved} and has no finished step on it: ask again later."
        )
    ordered = tuple(steps[number] for number in sorted(steps))
    return RunRecord(name or folder.name, plan, ordered, machine)


def read_runs(folders: list[Path]) -> list[RunRecord]:
    """Several, each under a name of its own: the folder's, with the one above it where two are called alike."""
    names = [folder.resolve().name for folder in folders]
    longer = [f"{folder.resolve().parent.name}/{folder.resolve().name}" for folder in folders]
    chosen = [long if names.count(short) > 1 else short for short, long in zip(names, longer, strict=True)]
    return [read_run(folder, name) for folder, name in zip(folders, chosen, strict=True)]
