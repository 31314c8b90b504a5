"""Metrics on the step they belong to.

With NextGeneration the critic's update of step k ends during step k + 1, after verl has logged step k. The ledger
stands where verl's logger stands, holds a step back until its critic has reported, and then hands it on complete, in
order.
"""

from collections.abc import Callable
from typing import Any


class StepLedger:
    """verl's `Tracking`, one step late where it must be."""

    def __init__(self, tracking: Any, publish: Callable[[int, dict[str, Any]], None]) -> None:
        self._tracking, self._publish = tracking, publish
        self._open: set[int] = set()
        self._held: dict[int, dict[str, Any]] = {}

    @property
    def logger(self) -> Any:
        """verl's other loggers look into this one."""
        return self._tracking.logger

    def keep_open(self, step: int) -> None:
        """Step `step` is not complete when verl logs it: more is to come."""
        self._open.add(step)

    def complete(self, step: int, late: dict[str, Any], finish: Callable[[dict[str, Any]], None]) -> None:
        """The rest of step `step`, which verl has logged by now; `finish` computes what needs all of it."""
        self._open.discard(step)
        metrics = self._held.pop(step, None)
        if metrics is None:
            raise KeyError(f"step {step} was completed before it was logged")
        metrics.update(late)
        finish(metrics)
        self._write(step, metrics)

    def log(self, data: dict[str, Any], step: int, backend: Any = None) -> None:
        """Called by verl at the end of a step (and once before the first, with validation)."""
        if step in self._open:
            self._held[step] = dict(data)
        else:
            self._write(step, dict(data))

    def finish(self, exit_code: int = 0) -> None:
        """The run is over; a step still held goes out as it is."""
        for step in sorted(self._held):
            self._write(step, self._held.pop(step))
        self._tracking.finish(exit_code=exit_code)

    def _write(self, step: int, metrics: dict[str, Any]) -> None:
        self._tracking.log(data=metrics, step=step)
        self._publish(step, metrics)
