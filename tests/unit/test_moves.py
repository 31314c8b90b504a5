"""A run that moves to better splits: it ends somewhere, and somewhere good."""

from hypothesis import given, settings
from hypothesis import strategies as st
from test_cost import measured

from run_folders import run_plan
from split_ppo.placement.advice import Advice, Prediction, advise
from split_ppo.placement.moves import next_move
from split_ppo.placement.plan import PlacementPlan
from split_ppo.placement.splits import other_splits, split_name

START = run_plan(actor=2, critic=2, batch=840, overlap="NextGeneration")
PLACES = [START.placement, *other_splits(START.placement, START.verl)]
NAMES = [split_name(place) for place in PLACES]


def advice(current: str, believed: dict[str, float], *, slack: float = 0.0) -> Advice:
    def prediction(place: PlacementPlan) -> Prediction:
        seconds = believed[split_name(place)]
        half = 0.0 if split_name(place) == current else slack
        return Prediction(place, seconds, seconds - half, seconds + half)

    found = {split_name(place): prediction(place) for place in PLACES}
    return Advice(found[current], sorted(found.values(), key=lambda p: p.seconds), "NextGeneration")


seconds = st.dictionaries(st.sampled_from(NAMES), st.floats(1, 10), min_size=len(NAMES), max_size=len(NAMES))


@settings(deadline=None)
@given(true=seconds, believed=seconds, slack=st.floats(0, 1))
def test_however_wrong_the_predictions_it_stops_and_is_never_worse_for_it(
    true: dict[str, float], believed: dict[str, float], slack: float
) -> None:
    current, tried, visited = NAMES[0], dict[str, float](), [NAMES[0]]
    for _ in range(20):
        move = next_move(advice(current, {**believed, current: true[current]}, slack=slack), tried, min_gain_percent=10)
        if move is None:
            break
        tried[current] = true[current]
        current = split_name(move.placement)
        visited.append(current)
        if move.final:
            break
    else:
        raise AssertionError(f"it never stops: {visited}")
    assert len(visited) <= len(NAMES) + 1
    assert len(set(visited[:-1])) == len(visited[:-1]), f"it went back and on again: {visited}"
    assert true[current] <= true[NAMES[0]] / 0.9


def test_it_moves_where_the_gain_is_large_enough() -> None:
    light = {"gen": 4.0, "old_log_prob": 1.0, "values": 0.3, "adv": 0.0, "update_actor": 3.0, "update_critic": 2.5,
             "update_weights": 0.5}  # fmt: skip
    found = advise([measured(actor=2, critic=2, overlap="NextGeneration", seconds=light)], START.verl)
    move = next_move(found, {}, min_gain_percent=10)
    assert move is not None
    assert (split_name(move.placement), move.final) == ("actor 3 + critic 1", False)
    assert move.sentence.startswith("actor 2 + critic 2 takes 8.50 s a step; actor 3 + critic 1 is predicted to take")
    assert next_move(found, {}, min_gain_percent=50) is None


def test_a_mistake_is_taken_back_for_good() -> None:
    believed = dict.fromkeys(NAMES, 9.0)
    move = next_move(advice(NAMES[1], {**believed, NAMES[1]: 12.0}), {NAMES[0]: 10.0}, min_gain_percent=10)
    assert move is not None
    assert (split_name(move.placement), move.final) == (NAMES[0], True)
