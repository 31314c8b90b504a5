"""The cost model: pieces of a step on pools of other sizes, and the step they make."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_folders import SECONDS, lay_out, run_plan
from split_ppo.placement.cost import OTHER, Measured, Scaling, fit, hold_up, set_free, step_seconds

LEVELS = ("None", "Update", "Inference", "NextGeneration")
lengths = st.fixed_dictionaries({name: st.floats(0.01, 10) for name in SECONDS})


def measured(
    step: float | None = None,
    *,
    seconds: dict[str, float] | None = None,
    exchange: dict[str, float] | None = None,
    crowded: bool = False,
    **plan: object,
) -> Measured:
    made = run_plan(**plan)  # type: ignore[arg-type]
    lasting = seconds or SECONDS
    whole = step_seconds(lasting, made.placement, made.overlap) if step is None else step
    return Measured(made.placement, made.overlap, lasting, whole, exchange or {}, crowded)


@pytest.mark.parametrize(
    ("level", "seconds"), [("None", 12.5), ("Update", 9.5), ("Inference", 8.5), ("NextGeneration", 8.5)]
)
def test_the_step_of_each_level(level: str, seconds: float) -> None:
    assert step_seconds(SECONDS, run_plan(overlap=level).placement, level) == seconds


def test_one_pool_overlaps_nothing() -> None:
    assert step_seconds(SECONDS, run_plan(actor=2, critic=0).placement, "NextGeneration") == 12.5


@settings(deadline=None)
@given(lengths, st.sampled_from(LEVELS))
def test_the_formulas_are_what_comes_out_of_playing_the_steps_through(lasting: dict[str, float], level: str) -> None:
    plan = run_plan(overlap=level)
    clock = critic_free = 0.0
    for _ in range(40):
        begin = clock
        _, clock, critic_free = lay_out(lasting, plan, clock, critic_free)
    # The last of many steps: the first ones of a critic that cannot follow are shorter.
    assert clock - begin == pytest.approx(step_seconds(lasting, plan.placement, level))


@settings(deadline=None)
@given(
    lengths, st.sampled_from(LEVELS), st.floats(0, 3), st.dictionaries(st.sampled_from(list(SECONDS)), st.floats(0, 30))
)
def test_what_was_measured_comes_out_again(
    lasting: dict[str, float], level: str, other: float, exchange: dict[str, float]
) -> None:
    """However wrong what was measured of the exchange may be."""
    for ranks in (1, 2):
        plan = run_plan(actor=ranks, critic=ranks, overlap=level)
        whole = step_seconds(lasting, plan.placement, level) + other
        run = measured(whole, seconds=lasting, exchange=exchange, actor=ranks, critic=ranks, overlap=level)
        for scaling in (0.0, 0.7, 1.0):
            model = fit([run], scaling=Scaling(scaling, scaling, beside_exchange=scaling))
            assert model.step(run.placement, level) == pytest.approx(whole)
            assert all(cost.one >= 0 for name, cost in model.pieces.items() if name != OTHER)


def test_twice_the_ranks_halve_what_is_shared_out() -> None:
    model = fit([measured(overlap="NextGeneration")])
    found = model.seconds(run_plan(actor=2, critic=4).placement, "None")
    assert [found[name] for name in ("gen", "update_critic", "update_weights")] == pytest.approx([2.0, 0.75, 0.5])


def test_a_doubling_gains_what_the_exponent_says() -> None:
    assumed = Scaling(passes=0.5, generation=0.25)
    at_two = fit([measured()], scaling=assumed).seconds(run_plan(actor=2, critic=2).placement, "None")
    gained = {name: SECONDS[name] / at_two[name] for name in ("gen", "old_log_prob", "update_critic")}
    assert gained == pytest.approx({"gen": 2**0.25, "old_log_prob": 2**0.5, "update_critic": 2**0.5})
    back = fit([measured(actor=2, critic=2, seconds=at_two)], scaling=assumed).seconds(run_plan().placement, "None")
    assert {name: back[name] for name in gained} == pytest.approx({name: SECONDS[name] for name in gained})


def test_two_ranks_share_the_work_and_exchange_parameters() -> None:
    exchange = {"old_log_prob": 0.2, "update_actor": 0.9, "update_weights": 0.1}
    run = measured(exchange=exchange, overlap="NextGeneration")
    at_two = fit([run]).seconds(run_plan(actor=2, critic=2).placement, "None")
    names = ("old_log_prob", "values", "update_actor", "update_weights")
    # Half of the micro batches each; the weights are gathered whole on both.
    assert [at_two[name] for name in names] == pytest.approx([(1.0 + 0.2) / 2, 0.5, (3.0 + 0.9) / 2, 0.5 + 0.1])
    at_four = fit([run]).seconds(run_plan(actor=4, critic=4).placement, "None")
    assert at_four["update_actor"] == pytest.approx((3.0 + 0.9 * 2 * 3 / 4) / 4)
    back = fit([measured(actor=2, critic=2, seconds=at_two, exchange=exchange)]).seconds(run_plan().placement, "None")
    assert {name: back[name] for name in names} == pytest.approx({name: SECONDS[name] for name in names})


CROWDED = Scaling(passes=1.0, generation=0.0, around=0.2)


def test_what_is_around_the_training_takes_from_slots_that_all_work() -> None:
    alone = fit([measured(crowded=True)], scaling=CROWDED)
    two = run_plan(overlap="NextGeneration").placement
    assert alone.step(two, "None") == pytest.approx(12.5), "one of the slots is free for it"
    beside = alone.seconds(two, "NextGeneration")
    assert [beside[name] for name in ("gen", "old_log_prob", "update_critic")] == pytest.approx([4.0, 1.1, 3.3])
    assert alone.seconds(two, "Update")["values"] == 1.0
    one_pool = alone.seconds(run_plan(actor=2, critic=0).placement, "None")
    assert one_pool["update_critic"] == pytest.approx(3.0 / 2 * 1.2), "ranks wait for whichever was held up"


def test_it_takes_only_while_both_pools_work() -> None:
    light = fit([measured(crowded=True, seconds={**SECONDS, "update_critic": 0.5})], scaling=CROWDED)
    beside = light.seconds(run_plan(overlap="Update").placement, "Update")
    assert (beside["update_actor"], beside["update_critic"]) == (pytest.approx(3.05), pytest.approx(0.55))


def test_with_cores_to_spare_it_takes_nothing() -> None:
    model = fit([measured()], scaling=CROWDED)
    assert model.seconds(run_plan().placement, "NextGeneration")["update_critic"] == 3.0


@settings(deadline=None)
@given(lengths, st.sampled_from(LEVELS), st.booleans())
def test_it_is_taken_out_and_put_in_again(lasting: dict[str, float], level: str, one_pool: bool) -> None:
    placement = run_plan(actor=2, critic=0 if one_pool else 2, overlap=level).placement
    there = hold_up(lasting, placement, level, 0.2)
    assert set_free(there, placement, level, 0.2) == pytest.approx(lasting)


def test_two_measured_sizes_hold_the_exchange_already() -> None:
    runs = [
        measured(exchange={"update_actor": 0.9}),
        measured(actor=2, critic=2, seconds={**SECONDS, "update_actor": 2.0}, exchange={"update_actor": 0.9}),
    ]
    cost = fit(runs).pieces["update_actor"]
    assert (cost.exchange, cost.at(1), cost.at(2)) == (0, pytest.approx(3.0), pytest.approx(2.0))


def test_two_sizes_tell_how_it_scales() -> None:
    at_one = measured(seconds={**SECONDS, "gen": 6.0})
    at_two = measured(actor=2, critic=2, seconds={**SECONDS, "gen": 6.0 / 2**0.6})
    cost = fit([at_one, at_two]).pieces["gen"]
    assert (cost.one, cost.scaling, cost.seen) == (pytest.approx(6.0), pytest.approx(0.6), (1, 2))
    assert cost.at(4) == pytest.approx(6.0 / 4**0.6)


@settings(deadline=None)
@given(st.floats(0.01, 10), st.floats(0.01, 10))
def test_no_fit_scales_better_than_perfectly_or_worse_than_not_at_all(one: float, two: float) -> None:
    runs = [measured(seconds={**SECONDS, "gen": one}), measured(actor=2, critic=2, seconds={**SECONDS, "gen": two})]
    cost = fit(runs).pieces["gen"]
    assert 0 <= cost.scaling <= 1
    assert min(one, two) * 0.5 <= cost.at(1) <= max(one, two) * 2
