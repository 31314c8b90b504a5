"""What a run's steps say about other splits, as the job's status has it."""

from typing import Any

from run_folders import SECONDS, run_plan
from split_ppo_trainer.progress import StepReport
from split_ppo_trainer.recommendation import Recommender


def fed(
    steps: int, *, seconds: dict[str, float] | None = None, step: float = 9.0, **plan: Any
) -> dict[str, Any] | None:
    recommender = Recommender.for_plan(run_plan(overlap="NextGeneration", **plan))
    assert recommender is not None
    timings = {f"timing_s/{name}": took for name, took in (seconds or SECONDS).items()}
    said = None
    for number in range(1, steps + 1):
        first = 50.0 if number == 1 else 0.0
        said = recommender.step(StepReport(number, 99, {**timings, "timing_s/step": step + first}, None))
    return said


def test_silent_until_there_are_steps_enough() -> None:
    assert fed(5) is None
    assert fed(6) is not None


def test_the_slow_first_step_is_not_counted() -> None:
    said = fed(6)
    assert said is not None
    assert {"split": "actor 1 + critic 1", "stepSeconds": 9.0} in said["predictions"]


def test_a_gain_below_the_threshold_leaves_the_split() -> None:
    said = fed(6, balance={"minGainPercent": 60})
    assert said is not None
    assert (said["best"], said["gainPercent"]) == ("actor 1 + critic 1", 0.0)
    assert said["message"].endswith("less than balance.minGainPercent (60%): the split is left as it is.")
    told = fed(6, balance={"minGainPercent": 5})
    assert told is not None
    assert told["best"] == "Colocated 2"


def test_no_advice_where_none_is_wanted() -> None:
    assert Recommender.for_plan(run_plan(balance={"mode": "None"})) is None
