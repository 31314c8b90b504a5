"""The queue: once in it, one worker per key, nothing added is lost, failures back off."""

import asyncio
from collections import Counter

import pytest

from split_ppo_operator.queue import KeyedQueue


async def drain(queue: KeyedQueue[str], seconds: float = 0.3, workers: int = 4) -> None:
    """Run the workers for a while; a queue never ends by itself."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.run(workers), seconds)


async def test_a_key_is_in_it_once() -> None:
    seen: list[str] = []

    async def work(key: str) -> None:
        seen.append(key)

    queue: KeyedQueue[str] = KeyedQueue(work)
    for key in "aabab":
        queue.add(key)
    assert queue.depth() == 2
    await drain(queue)
    assert sorted(seen) == ["a", "b"]


async def test_what_is_added_during_work_is_looked_at_again_and_never_twice_at_once() -> None:
    running: Counter[str] = Counter()
    looks: Counter[str] = Counter()
    at_once = 0

    async def work(key: str) -> None:
        nonlocal at_once
        running[key] += 1
        at_once = max(at_once, running[key])
        looks[key] += 1
        if looks[key] == 1:
            queue.add(key)
            queue.add(key)
        await asyncio.sleep(0.01)
        running[key] -= 1

    queue: KeyedQueue[str] = KeyedQueue(work)
    queue.add("a")
    await drain(queue)
    assert (looks["a"], at_once) == (2, 1)


async def test_looks_again_when_asked_to_and_sooner_when_something_happens() -> None:
    looks: Counter[str] = Counter()

    async def work(key: str) -> float | None:
        looks[key] += 1
        return 60.0 if key == "later" else 0.01 if looks[key] < 3 else None

    queue: KeyedQueue[str] = KeyedQueue(work)
    queue.add("soon")
    queue.add("later")
    await drain(queue)
    assert looks == {"soon": 3, "later": 1}
    queue.add("later")
    await drain(queue)
    assert looks["later"] == 2


async def test_failures_back_off_and_the_rest_goes_on() -> None:
    looks: Counter[str] = Counter()
    errors: list[Exception] = []

    async def work(key: str) -> None:
        looks[key] += 1
        if key == "bad":
            raise RuntimeError("no")

    queue: KeyedQueue[str] = KeyedQueue(work, lambda key, error: errors.append(error), first_backoff=0.01)
    queue.add("bad")
    queue.add("good")
    await drain(queue, seconds=0.5)
    assert looks["good"] == 1
    # 0.01, 0.02, 0.04 … : about six tries in half a second, not hundreds.
    assert 3 <= looks["bad"] <= 8
    assert len(errors) == looks["bad"]
