"""The arithmetic of overlap: which level is which, and what a step cannot go under."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from split_ppo_trainer.overlap import TURNS, Overlap, Turns, overlap_efficiency, step_limit

PIECES = {
    "gen": 4.0,
    "old_log_prob": 1.0,
    "ref": 0.5,
    "values": 1.2,
    "update_actor": 3.0,
    "update_critic": 2.0,
    "update_weights": 0.5,
}


@pytest.mark.parametrize(
    ("changed", "layout", "limit"),
    [
        ({}, {}, 4 + 1.5 + 3 + 0.5),
        ({"update_critic": 20.0}, {}, 1.5 + 20),
        ({}, {"ref_beside_critic": True}, 4 + 1.7 + 3 + 0.5),
        ({"reward": 2.0}, {"reward_beside_critic": True}, 4 + 3.2 + 3 + 0.5),
        ({}, {"one_pool": True}, 12.2),
    ],
    ids=["actor bounds", "critic bounds", "ref on the critic's pool", "reward on the critic's pool", "one pool"],
)
def test_limit(changed: dict[str, float], layout: dict[str, bool], limit: float) -> None:
    assert step_limit(PIECES | changed, **layout) == pytest.approx(limit)


@given(st.fixed_dictionaries({name: st.floats(0, 1e4) for name in PIECES}))
def test_no_step_can_be_shorter_than_its_longest_piece_or_longer_than_their_sum(pieces: dict[str, float]) -> None:
    limit = step_limit(pieces)
    assert limit >= max(pieces.values()) * (1 - 1e-9)
    assert limit <= sum(pieces.values()) * (1 + 1e-9)
    assert limit <= step_limit(pieces, one_pool=True) * (1 + 1e-9)


def test_efficiency_is_limit_over_measured_without_the_checkpoint() -> None:
    assert overlap_efficiency(PIECES | {"step": 18.0}) == pytest.approx(0.5)
    assert overlap_efficiency(PIECES | {"step": 28.0, "save_checkpoint": 10.0}) == pytest.approx(0.5)
    assert overlap_efficiency(PIECES) == 0.0


def test_levels_include_each_other_in_the_apis_words() -> None:
    order = [Overlap.parse(name) for name in ("None", "Update", "Inference", "NextGeneration")]
    assert order == sorted(order)
    with pytest.raises(ValueError, match="one of None, Update, Inference, NextGeneration"):
        Overlap.parse("pair")


def test_one_level_for_all_steps_or_several_in_turn() -> None:
    assert {Turns.of("Update", {}).at(step) for step in range(1, 9)} == {Overlap.UPDATE}
    turns = Turns.of("Update", {TURNS: "None,NextGeneration:2"})
    first, last = Overlap.NONE, Overlap.NEXT_GENERATION
    assert [turns.at(step) for step in range(1, 7)] == [first, first, last, last, first, first]
