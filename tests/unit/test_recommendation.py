"""What a run's steps say about other splits, as the job's status has it."""

from typing import Any

from run_folders import SECONDS, run_plan
from split_ppo.placement.splits import split_name
from split_ppo.runplan import RunPlan, RunStorage
from split_ppo_trainer.progress import StepReport
from split_ppo_trainer.recommendation import Mover, Recommender, SplitMove


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


def test_what_the_run_has_told_of_its_machine_is_reckoned_with() -> None:
    def predicted(*events: dict[str, Any]) -> float:
        recommender = Recommender.for_plan(run_plan(device="CPU"))
        assert recommender is not None
        for event in events:
            recommender.event(event)
        timings = {f"timing_s/{name}": took for name, took in SECONDS.items()}
        said = None
        for number in range(1, 7):
            said = recommender.step(StepReport(number, 99, {**timings, "timing_s/step": 12.5}, None))
        assert said is not None
        return next(p["stepSeconds"] for p in said["predictions"] if p["split"] == "Colocated 2")

    def told(gather: float) -> dict[str, Any]:
        each = {"gather": gather, "scatter": gather}
        return {"event": "machine", "time": 0.0, "cores": 8, "exchange": {"ActorRollout": each, "Critic": each}}

    other = {"event": "stage", "time": 0.0, "stage": "training", "message": "…"}
    assert predicted(told(0.002), other) < predicted(told(0.01), other) < predicted(told(0.002), told(0.02))
    assert predicted(told(0.002)) < predicted()


def test_no_advice_where_none_is_wanted() -> None:
    assert Recommender.for_plan(run_plan(balance={"mode": "None"})) is None


def moving(plan: RunPlan, *, step: float = 9.0) -> SplitMove | None:
    """What a run with this plan does after ten steps."""
    mover = Mover.for_plan(plan)
    assert mover is not None
    timings = {f"timing_s/{name}": took for name, took in SECONDS.items()}
    for number in range(1, 11):
        mover.step(StepReport(number, 99, {**timings, "timing_s/step": step}, None))
    try:
        mover.look(10)
    except SplitMove as move:
        return move
    return None


def test_a_run_moves_once_and_goes_back_only_for_good() -> None:
    stored = {"storage": RunStorage(path="/ckpt")}
    plan = run_plan(overlap="NextGeneration", balance={"mode": "Apply"}).model_copy(update=stored)
    move = moving(plan)
    assert move is not None
    assert (split_name(move.plan.placement), move.step) == ("Colocated 2", 10)
    assert move.plan.balance.tried == {"actor 1 + critic 1": 9.0}
    assert move.plan.balance.mode == "Apply"
    assert RunPlan.model_validate_json(move.plan.to_json()) == move.plan
    back = moving(move.plan, step=12.0)
    assert back is not None
    assert (split_name(back.plan.placement), back.plan.balance.mode) == ("actor 1 + critic 1", "Recommend")
    assert Mover.for_plan(back.plan) is None


def test_without_checkpoints_nothing_moves() -> None:
    assert Mover.for_plan(run_plan(balance={"mode": "Apply"})) is None
