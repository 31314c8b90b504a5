"""Ends a run in which nothing moves, and says what it was waiting for.

verl waits without a deadline for placement groups, for the vLLM side of a weight sync and for prompts to finish, and it
does not notice when a helper actor's node is gone. So one thread in the task runner looks every few seconds: is every
node and actor of the run still there, and has whatever we wait for moved within its limit? `judge` decides; the thread
only looks and acts.

A watch can carry a `pulse`, anything that changes while there is life (for generation: how many prompts are pending,
running, done).
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from split_ppo_trainer.failures import RunFailure

# Seconds without a sign of life, by stage. Generous: a 70B update is slow, a dead one is dead for ever.
LIMITS = {"workers": 1800.0, "rollout": 1800.0, "generation": 1800.0, "training": 3600.0, "weight_sync": 900.0}
LIMITS |= {"checkpoint": 3600.0, "validating": 1800.0}
REASONS = {"workers": "PlacementStalled", "rollout": "RolloutStartStalled", "generation": "GenerationStalled"}
REASONS |= {"weight_sync": "WeightSyncStalled", "training": "TrainingStalled"}
LOOK_EVERY_S = 2.0
CAUSE_PATIENCE_S, CAUSE_LOOK_S = 30.0, 0.5


@dataclass(frozen=True)
class Watch:
    """What is being waited for, and when it last moved."""

    stage: str
    waiting_for: str
    moved_at: float
    pulse: object = None


@dataclass(frozen=True)
class Roll:
    """Nodes and actors of the run, each with words for it. Only those that matter: what is not here may come and go."""

    nodes: Mapping[str, str]
    actors: Mapping[str, str]


def judge(
    watch: Watch | None, *, now: float, limits: Mapping[str, float], expected: Roll, present: Roll
) -> RunFailure | None:
    """The failure to end with, or None to go on waiting. `present` holds what Ray says is alive."""
    lost = [words for node, words in expected.nodes.items() if node not in present.nodes]
    if lost:
        doing = f" while the run was waiting for {watch.waiting_for}" if watch else ""
        return RunFailure("NodeLost", f"Ray lost {_listed(lost)}{doing}; the run needs it and ends here.")
    dead = [words for actor, words in expected.actors.items() if actor not in present.actors]
    if dead:
        return RunFailure("WorkerDied", f"{_listed(dead)} died; the run cannot go on without it.")
    if watch is None:
        return None
    limit = limits.get(watch.stage, max(limits.values(), default=0.0))
    still = now - watch.moved_at
    if still <= limit:
        return None
    return RunFailure(
        REASONS.get(watch.stage, "Stalled"),
        f"Nothing has moved for {still:.0f} s while waiting for {watch.waiting_for}; the limit is {limit:.0f} s "
        "(--stall-seconds).",
    )


def _listed(words: list[str]) -> str:
    shown = ", ".join(words[:3])
    return shown if len(words) <= 3 else f"{shown} and {len(words) - 3} more"


class Watchdog:
    """The thread. `look` asks Ray what is alive, `bark` ends the run."""

    def __init__(
        self,
        *,
        look: Callable[[], Roll],
        bark: Callable[[RunFailure], None],
        limits: Mapping[str, float] = LIMITS,
        every: float = LOOK_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._bark, self._limits, self._every, self._clock = look, bark, limits, every, clock
        self._watch: Watch | None = None
        self._pulse: Callable[[], object] | None = None
        self._expected = Roll({}, {})
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._patrol, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def expect(self, roll: Roll) -> None:
        """From now on these must stay."""
        with self._lock:
            self._expected = roll

    def enter(self, stage: str, waiting_for: str, pulse: Callable[[], object] | None = None) -> None:
        """The run now waits for this; the limit of the stage starts anew."""
        with self._lock:
            self._watch = Watch(stage, waiting_for, self._clock())
            self._pulse = pulse

    def look_once(self) -> RunFailure | None:
        """One round: read the pulse, ask Ray, judge."""
        with self._lock:
            if self._watch is not None and self._pulse is not None:
                felt = self._pulse()
                if felt != self._watch.pulse:
                    self._watch = replace(self._watch, pulse=felt, moved_at=self._clock())
            watch, expected = self._watch, self._expected
        present = self._look() if expected.nodes or expected.actors else Roll({}, {})
        return judge(watch, now=self._clock(), limits=self._limits, expected=expected, present=present)

    def cause(self, *, patience: float = CAUSE_PATIENCE_S) -> RunFailure | None:
        """Why a call to a worker failed: its node is gone, or the worker alone. Ray takes a while to know; then None."""
        deadline, tick = self._clock() + patience, threading.Event()
        while True:
            with contextlib.suppress(Exception):
                failure = self.look_once()
                if failure is not None:
                    return failure
            if self._clock() >= deadline:
                return None
            tick.wait(CAUSE_LOOK_S)

    def _patrol(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                failure = self.look_once()
            except Exception as problem:  # Ray's control plane may be away for a moment; the limits still hold
                print(f"watchdog could not look: {problem}", flush=True)
                continue
            if failure is not None and not self._stopped.is_set():
                self._bark(failure)
                return
