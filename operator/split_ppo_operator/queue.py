"""A queue of jobs to look at: each at most once in it, each worked on by one worker at a time, failures backed off.

Events are hints and may be lost or doubled; what counts is that a key that was added after a look began is looked at again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class KeyedQueue(Generic[K]):
    """`work` is called for each key; a number it returns is when to look again, an exception is backed off."""

    work: Callable[[K], Awaitable[float | None]]
    on_error: Callable[[K, Exception], None] = lambda key, error: None
    first_backoff: float = 0.5
    longest_backoff: float = 120.0
    _ready: asyncio.Queue[K] = field(default_factory=asyncio.Queue)
    _waiting: set[K] = field(default_factory=set)
    _running: set[K] = field(default_factory=set)
    _again: set[K] = field(default_factory=set)
    _timers: dict[K, asyncio.TimerHandle] = field(default_factory=dict)
    _failures: dict[K, int] = field(default_factory=dict)

    def add(self, key: K) -> None:
        """Look at it as soon as a worker is free."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
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

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                after = await self.work(key)
                self._failures.pop(key, None)
                if after is not None:
                    self.add_after(key, after)
            except Exception as error:
                self.on_error(key, error)
                self.add_after(key, self._backoff(key))
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _backoff(self, key: K) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return float(min(self.first_backoff * 2 ** min(count - 1, 16), self.longest_backoff)) * random.uniform(0.8, 1.2)
