"""How long a process had work."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from split_ppo_trainer import busy
from split_ppo_trainer.busy import BusyClock


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    found = Hands()
    monkeypatch.setattr(busy, "time", found)
    return found


def test_work_inside_work_and_after_it(hands: Hands) -> None:
    clock = BusyClock()
    with clock.working():
        hands.now += 1
        with clock.working():
            hands.now += 2
        hands.now += 4
    hands.now += 8
    assert clock.seconds() == 7
    with clock.working():
        hands.now += 16
    assert clock.seconds() == 23


def test_work_under_way_counts_up_to_now(hands: Hands) -> None:
    clock = BusyClock()
    with clock.working():
        hands.now += 1
        assert clock.seconds() == 1
        hands.now += 1
        assert clock.seconds() == 2


def test_work_that_fails_is_over(hands: Hands) -> None:
    clock = BusyClock()

    def fail() -> None:
        with clock.working():
            hands.now += 3
            raise ValueError("worse")

    with pytest.raises(ValueError, match="worse"):
        fail()
    hands.now += 5
    assert clock.seconds() == 3


def test_requests_beside_each_other_count_once_and_idle_time_does_not(hands: Hands) -> None:
    clock = BusyClock()

    async def generate(count: int) -> AsyncIterator[int]:
        for number in range(count):
            hands.now += 1
            yield number
            await asyncio.sleep(0)

    counted = clock.counted(generate)

    async def both() -> list[list[int]]:
        async def read(count: int) -> list[int]:
            return [number async for number in counted(count)]

        found = await asyncio.gather(read(2), read(3))
        hands.now += 10
        return found

    assert asyncio.run(both()) == [[0, 1], [0, 1, 2]]
    assert clock.seconds() == 5


def test_a_request_that_is_given_up_is_over(hands: Hands) -> None:
    clock = BusyClock()

    async def endless() -> AsyncIterator[int]:
        while True:
            hands.now += 1
            yield 0

    async def give_up() -> None:
        requests = clock.counted(endless)()
        await anext(requests)
        await requests.aclose()  # type: ignore[attr-defined]

    asyncio.run(give_up())
    hands.now += 10
    assert clock.seconds() == 1
