"""A queue of jobs to look at: each at most once in it, each worked on by one worker at a time, failures backed off.

Events are hints and may be lost or doubled; what counts is that a key that was added after a look began is looked at again.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class KeyedQueue(Generic[K]):
    """`work` is called for each key; a number it returns is when to look again, an exception is backed off.

    `on_error` hears of exceptions, and may say how many seconds to wait at least.
    """

    work: Callable[[K], Awaitable[float | None]]
    on_error: Callable[[K, Exception], float | None] = lambda key, error: None
    first_backoff: float = 0.5
    longest_backoff: float = 120.0
    _ready: asyncio.Queue[K] = field(default_factory=asyncio.Queue)
    # Since when: waiting for a worker, with a worker.
    _waiting: dict[K, float] = field(default_factory=dict)
    _running: dict[K, float] = field(default_factory=dict)
    _again: set[K] = field(default_factory=set)
    _timers: dict[K, asyncio.TimerHandle] = field(default_factory=dict)
    _failures: dict[K, int] = field(default_factory=dict)
    _last_done: float | None = None

    def add(self, key: K) -> None:
        """Look at it as soon as a worker is free."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = time.monotonic()
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Look at it later, unless something makes it sooner."""
        if key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        known = self._timers.get(key)
        if known is not None and known.when() <= loop.time() + seconds:
            return
        if known is not None:
            known.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def depth(self) -> int:
        return len(self._waiting)

    def oldest(self) -> float:
        """Seconds that the first of those waiting has been."""
        return time.monotonic() - min(self._waiting.values()) if self._waiting else 0.0

    def stalled(self) -> float:
        """Seconds for which nothing was finished although there was work, or which one piece of it has taken so far."""
        if self._last_done is None:
            return 0.0  # nobody works here yet: another replica does
        now = time.monotonic()
        one_piece = now - min(self._running.values(), default=now)
        return max(one_piece, min(self.oldest(), now - self._last_done))

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        self._last_done = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.pop(key, None)
            self._running[key] = time.monotonic()
            try:
                after = await self.work(key)
                self._failures.pop(key, None)
                if after is not None:
                    self.add_after(key, after)
            except Exception as error:
                least = self.on_error(key, error) or 0.0
                self.add_after(key, max(self._backoff(key), least))
            finally:
                self._last_done = time.monotonic()
                self._running.pop(key, None)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _backoff(self, key: K) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return float(min(self.first_backoff * 2 ** min(count - 1, 16), self.longest_backoff)) * random.uniform(0.8, 1.2)
