"""When each piece of a step began, beside how long it took: what a timeline needs.

verl times the pieces of a step into a dict, each when it ends. This dict also notes when that piece must have begun. A piece
that ran beside the driver brings its beginning from its worker's clock; clocks of different machines agree as well as their
time synchronisation does.
"""

import time

BEGAN = "split/began/"


class Timings(dict[str, float]):
    """verl's `timing_raw`, and the wall-clock time at which each piece began."""

    def __init__(self) -> None:
        super().__init__()
        self._began: dict[str, float] = {}

    def __setitem__(self, name: str, seconds: float) -> None:
        super().__setitem__(name, seconds)
        if seconds:  # verl sets 0 before it adds
            self._began.setdefault(name, time.time() - seconds)

    def put(self, name: str, seconds: float, began: float) -> None:
        """A piece that a worker timed."""
        self._began[name] = began
        self[name] = seconds

    def metrics(self) -> dict[str, float]:
        """`split/began/NAME`: seconds since 1970."""
        return {BEGAN + name: began for name, began in self._began.items()}
