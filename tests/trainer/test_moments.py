"""When each piece of a step began."""

import time

import pytest

from split_ppo_trainer.moments import Timings


def test_a_piece_began_as_long_ago_as_it_took() -> None:
    timings = Timings()
    timings["gen"] = 0  # verl's timers set, then add
    timings["gen"] += 2.5
    assert timings["gen"] == 2.5
    assert timings.metrics() == {"split/began/gen": pytest.approx(time.time() - 2.5, abs=0.5)}


def test_a_worker_knows_its_beginning_itself() -> None:
    timings = Timings()
    timings.put("values", 2.0, 1000.0)
    assert timings["values"] == 2.0
    assert timings.metrics() == {"split/began/values": 1000.0}
