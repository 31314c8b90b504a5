"""How long a process had work, by its own clock. Standard library only: workers, servers and reward loops all carry one."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any


class BusyClock:
    """Seconds with at least one piece of work under way; pieces beside or inside each other count once.

    One thread works, others may look: the state is one tuple, replaced whole.
    """

    def __init__(self) -> None:
        self._state = (0, 0.0, 0.0)  # pieces under way, since when, seconds before that

    @contextmanager
    def working(self) -> Iterator[None]:
        count, since, before = self._state
        self._state = (count + 1, since if count else time.perf_counter(), before)
        try:
            yield
        finally:
            count, since, before = self._state
            self._state = (count - 1, since, before if count > 1 else before + time.perf_counter() - since)

    def seconds(self) -> float:
        """So far, work that is under way included."""
        count, since, before = self._state
        return before + time.perf_counter() - since if count else before

    def counted(self, method: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
        """The same asynchronous generator; there is work from its first item asked for to its end."""

        async def generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with self.working():
                async for item in method(*args, **kwargs):
                    yield item

        return generator


# Of the process that imports this: a rank with all its roles, or a server.
PROCESS = BusyClock()
