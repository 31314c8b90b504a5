"""What a run tells the world while it goes on: stages, steps, placement, what it measured, the error that ended it.

One `Progress`, several sinks. A sink that fails is reported once on stderr and never ends a run. Files are appended
line by line in single writes, so that the driver and the task runner can share them and a reader that tails them sees
whole lines.
"""

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from split_ppo.placement.exchange import Machine
from split_ppo_trainer.pool_load import by_pool

# In the output folder: the plan that a run which moves to another split goes on with.
NEXT_PLAN = "next-plan.json"
STAGES = ("preflight", "workers", "rollout", "training", "validating", "checkpoint", "done")
PHASES = (
    "gen",
    "reward",
    "old_log_prob",
    "ref",
    "values",
    "adv",
    "update_actor",
    "update_critic",
    "update_weights",
    "step",
)


@dataclass(frozen=True)
class StepReport:
    """One finished step, complete: critic metrics included, wherever they came in."""

    step: int
    total_steps: int
    metrics: Mapping[str, Any]
    checkpoint: str | None
    time: float = field(default_factory=time.time)

    @property
    def reward(self) -> float | None:
        value = self.metrics.get("critic/score/mean")
        return None if value is None else float(value)

    @property
    def seconds(self) -> dict[str, float]:
        found = {name: self.metrics.get(f"timing_s/{name}") for name in PHASES}
        return {name: float(value) for name, value in found.items() if value is not None}

    @property
    def overlap_efficiency(self) -> float | None:
        value = self.metrics.get("split/overlap_efficiency")
        return None if value is None else float(value)

    @property
    def pools(self) -> dict[str, dict[str, float]]:
        """How well each pool was used: busy_share, memory_gb, tokens_per_s, wait_s."""
        return by_pool(self.metrics)


class Sink(Protocol):
    """Somewhere progress goes."""

    def event(self, event: Mapping[str, Any]) -> None:
        """A stage, a step, the placement or an error, as it happens."""

    def step(self, report: StepReport) -> None:
        """A finished step with all its metrics."""

    def close(self) -> None:
        """The run is over."""


class Progress:
    """Hands each report to every sink."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)
        self._complained: set[int] = set()

    def stage(self, stage: str, message: str) -> None:
        self._event({"event": "stage", "stage": stage, "message": message})

    def placement(
        self,
        workers: Sequence[Mapping[str, Any]],
        engines: Sequence[Mapping[str, Any]],
        helpers: Sequence[Mapping[str, Any]],
    ) -> None:
        """Who is where: the ranks and servers of each role, the processes that compute for the servers, and all others."""
        found = {"workers": list(workers), "engines": list(engines), "helpers": list(helpers)}
        self._event({"event": "placement", **found})

    def machine(self, machine: Machine) -> None:
        """Its cores, and what two ranks take to exchange the parameters of each role's model."""
        exchange = {role: seconds._asdict() for role, seconds in machine.exchange.items()}
        self._event({"event": "machine", "cores": machine.cores, "exchange": exchange})

    def error(self, reason: str, message: str) -> None:
        self._event({"event": "error", "reason": reason, "message": message})

    def move(self, step: int, left: str, to: str, message: str, *, balance: Mapping[str, Any] | None) -> None:
        """The run goes on on another split, from the checkpoint of `step`; `balance` as in the job's status."""
        event = {"event": "move", "step": step, "from": left, "to": to, "message": message}
        self._event({**event, "balance": balance})

    def step(self, report: StepReport) -> None:
        for sink in self._sinks:
            self._guarded(sink, lambda sink=sink: sink.step(report))
        self._event(
            {
                "event": "step",
                "step": report.step,
                "total_steps": report.total_steps,
                "reward": report.reward,
                "seconds": report.seconds,
                "overlap_efficiency": report.overlap_efficiency,
                "pools": report.pools,
                "checkpoint": report.checkpoint,
            }
        )

    def close(self) -> None:
        for sink in self._sinks:
            self._guarded(sink, sink.close)

    def _event(self, event: dict[str, Any]) -> None:
        stamped = {"time": time.time(), **event}
        for sink in self._sinks:
            self._guarded(sink, lambda sink=sink: sink.event(stamped))

    def _guarded(self, sink: Sink, call: Any) -> None:
        try:
            call()
        except Exception as problem:
            if id(sink) not in self._complained:
                self._complained.add(id(sink))
                print(
                    f"{type(sink).__name__} failed and is ignored from here on: {problem}", file=sys.stderr, flush=True
                )


class JsonlFiles:
    """`events.jsonl` and `metrics.jsonl` in the output folder."""

    def __init__(self, folder: Path) -> None:
        self._events, self._metrics = folder / "events.jsonl", folder / "metrics.jsonl"

    def event(self, event: Mapping[str, Any]) -> None:
        append_line(self._events, event)

    def step(self, report: StepReport) -> None:
        record = {"step": report.step, "total_steps": report.total_steps, "time": report.time}
        append_line(self._metrics, {**record, "metrics": dict(report.metrics)})

    def close(self) -> None:
        """Every line is on disk already."""


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """One write of one line; files are opened for appending each time, so several processes may write."""
    line = json.dumps(plain(record), allow_nan=False, separators=(",", ":")) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def plain(value: Any) -> Any:
    """Values of numpy and torch as JSON's own; NaN and infinity as text, since JSON has no word for them."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def keep_metrics_until(folder: Path, step: int) -> None:
    """Drop the metrics of steps beyond `step`: a run that starts or resumes there is about to write them again."""
    file = folder / "metrics.jsonl"
    if not file.exists():
        return
    whole, _, _ = file.read_text().rpartition("\n")
    kept = [line for line in whole.splitlines() if json.loads(line)["step"] <= step]
    fresh = file.with_suffix(".new")
    fresh.write_text("".join(line + "\n" for line in kept))
    fresh.replace(file)


def last_error(folder: Path, *, since: float = 0.0) -> tuple[str, str] | None:
    """Reason and sentence of the last error event after `since`, for a driver whose task runner is gone."""
    try:
        lines = (folder / "events.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        event = json.loads(line)
        if event.get("event") == "error" and event["time"] >= since:
            return str(event["reason"]), str(event["message"])
    return None


class RayMetrics:
    """Gauges on Ray's own metrics port, so that whatever scrapes the Ray cluster sees the training too."""

    def __init__(self, job: str) -> None:
        from ray.util.metrics import Gauge

        def gauge(name: str, what: str, *labels: str) -> Any:
            made = Gauge(f"split_ppo_{name}", description=what, tag_keys=("job", *labels))
            made.set_default_tags({"job": job})
            return made

        self._step = gauge("step", "Steps done")
        self._total = gauge("total_steps", "Steps in all")
        self._reward = gauge("reward", "Mean reward of the last step")
        self._seconds = gauge("phase_seconds", "Seconds of each piece of the last step", "phase")
        self._efficiency = gauge("overlap_efficiency", "Shortest possible step divided by the measured one")
        self._wait = gauge("critic_wait_seconds", "Seconds the actor's pool waited for the critic's in the last step")
        self._bytes = gauge("pool_bytes", "Bytes moved between the pools in the last step")
        self._busy = gauge("pool_busy_share", "Share of the last step in which the pool had work", "pool")
        self._memory = gauge("pool_memory_bytes", "Memory taken on the pool", "pool")
        self._tokens = gauge("pool_tokens_per_second", "Tokens of the last step per second of the pool's work", "pool")
        self._idle = gauge("pool_wait_seconds", "Seconds of the last step in which the pool had no work", "pool")

    def event(self, event: Mapping[str, Any]) -> None:
        """Gauges follow steps only."""

    def step(self, report: StepReport) -> None:
        self._step.set(report.step)
        self._total.set(report.total_steps)
        for phase, seconds in report.seconds.items():
            self._seconds.set(seconds, tags={"phase": phase})
        optional = (
            (self._reward, report.reward),
            (self._efficiency, report.overlap_efficiency),
            (self._wait, report.metrics.get("split/critic_wait_s")),
            (self._bytes, report.metrics.get("split/pool_bytes")),
        )
        for gauge, value in optional:
            if value is not None:
                gauge.set(float(value))
        of_pools = (
            (self._busy, "busy_share", 1.0),
            (self._memory, "memory_gb", 1e9),
            (self._tokens, "tokens_per_s", 1.0),
            (self._idle, "wait_s", 1.0),
        )
        for pool, used in report.pools.items():
            for gauge, name, unit in of_pools:
                if name in used:
                    gauge.set(used[name] * unit, tags={"pool": pool})

    def close(self) -> None:
        """Ray forgets the gauges with the process."""
