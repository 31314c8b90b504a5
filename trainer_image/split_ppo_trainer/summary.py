"""What a run came to, from the lines it wrote. Pure: the same lines give the same summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from split_ppo_trainer.pool_load import by_pool

# The first step of an attempt pays for what later ones reuse; a median over few steps should not count it.
WARM_UP_STEPS = 1
PHASES = (
    "gen", "reward", "old_log_prob", "ref", "values", "adv", "update_actor", "update_critic", "update_weights", "step",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step as metrics.jsonl has it."""

    number: int
    total: int
    reward: float | None
    seconds: Mapping[str, float]
    efficiency: float | None
    pools: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Step:
        metrics = record["metrics"]
        return cls(
            number=int(record["step"]),
            total=int(record["total_steps"]),
            reward=number(metrics.get("critic/score/mean")),
            seconds={name: value for name in PHASES if (value := number(metrics.get(f"timing_s/{name}"))) is not None},
            efficiency=number(metrics.get("split/overlap_efficiency")),
            pools=by_pool(metrics),
        )


@dataclass(frozen=True)
class Summary:
    """summary.json."""

    steps: int
    total_steps: int
    first_reward: float | None
    last_reward: float | None
    best_reward: float | None
    median_seconds: Mapping[str, float] = field(default_factory=dict)
    overlap_efficiency: float | None = None
    pools: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    attempts: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> str:
        content = {
            "steps": self.steps,
            "total_steps": self.total_steps,
            "reward": {"first": self.first_reward, "last": self.last_reward, "best": self.best_reward},
            "median_seconds": dict(self.median_seconds),
            "overlap_efficiency": self.overlap_efficiency,
            "pools": {pool: dict(used) for pool, used in self.pools.items()},
            "attempts": list(self.attempts),
        }
        return json.dumps(content, indent=2) + "\n"


def summarise(steps: Sequence[Step], attempts: Sequence[Mapping[str, Any]]) -> Summary:
    """Steps in the order they were written; a step done again after a resume counts as it was done last."""
    done = sorted({step.number: step for step in steps}.values(), key=lambda step: step.number)
    rewards = [step.reward for step in done if step.reward is not None]
    timed = done[WARM_UP_STEPS:] or done
    seconds = {
        name: round(median(values), 4)
        for name in PHASES
        if (values := [step.seconds[name] for step in timed if name in step.seconds])
    }
    efficiencies = [step.efficiency for step in timed if step.efficiency is not None]
    return Summary(
        steps=done[-1].number if done else 0,
        total_steps=done[-1].total if done else 0,
        first_reward=rewards[0] if rewards else None,
        last_reward=rewards[-1] if rewards else None,
        best_reward=max(rewards) if rewards else None,
        median_seconds=seconds,
        overlap_efficiency=round(median(efficiencies), 4) if efficiencies else None,
        pools=median_pools(timed),
        attempts=attempts,
    )


def median_pools(steps: Sequence[Step]) -> dict[str, dict[str, float]]:
    """Medians of what each pool was used for."""
    found: dict[str, dict[str, list[float]]] = {}
    for step in steps:
        for pool, used in step.pools.items():
            for name, value in used.items():
                found.setdefault(pool, {}).setdefault(name, []).append(value)
    return {
        pool: {name: round(median(values), 4) for name, values in used.items()} for pool, used in sorted(found.items())
    }


def write_summary(folder: Path) -> None:
    """summary.json of the run in a folder, whole or not at all."""
    summary = summarise(read_steps(folder / "metrics.jsonl"), attempts_from(read_lines(folder / "events.jsonl")))
    partial = folder / ".summary.json.partial"
    partial.write_text(summary.to_json())
    partial.replace(folder / "summary.json")


def read_steps(metrics: Path) -> list[Step]:
    """The steps in metrics.jsonl; a last line that a crash cut short is left out."""
    return [Step.from_record(record) for record in read_lines(metrics)]


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def number(value: Any) -> float | None:
    """JSON has no NaN; the trainer writes it as text, and here it is no number."""
    return float(value) if isinstance(value, int | float) else None


def attempts_from(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The attempts that an event log tells of: each begins with an `attempt` event."""
    attempts: list[dict[str, Any]] = []
    for event in events:
        kind = event.get("event")
        if kind == "attempt":
            attempts.append(
                {"number": len(attempts) + 1, "started": event["time"], "resumed": bool(event.get("resumed")),
                 "first_step": None, "last_step": None, "outcome": "Lost", "finished": None, "message": None}
            )  # fmt: skip
        elif not attempts:
            continue
        elif kind == "step":
            current = attempts[-1]
            current["first_step"] = current["first_step"] or event["step"]
            current["last_step"] = event["step"]
        elif kind == "error":
            attempts[-1]["message"] = event["message"]
        elif kind == "end":
            attempts[-1] |= {"outcome": event["outcome"], "finished": event["time"]}
    return attempts
