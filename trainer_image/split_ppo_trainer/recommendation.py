"""What the steps so far say about other splits of the same GPUs: `status.recommendation`, and moves (`balance.mode: Apply`).

Said from the fifth timed step on, and from then on at every step, over the last fifty: medians then move little. A better split
is named only when it would save at least `balance.minGainPercent`.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from split_ppo.compare.figures import figures, measured
from split_ppo.compare.run_record import RunRecord, StepRecord
from split_ppo.placement.advice import Advice, advise
from split_ppo.placement.exchange import Machine
from split_ppo.placement.moves import next_move
from split_ppo.placement.splits import split_name
from split_ppo.runplan import RunPlan
from split_ppo_trainer.progress import StepReport, plain

FEWEST, MOST = 6, 50  # the first step is not timed


class Recommender:
    """Takes a run's steps one by one."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._steps: deque[StepRecord] = deque(maxlen=MOST)
        self._machine = Machine()

    @classmethod
    def for_plan(cls, plan: RunPlan) -> "Recommender | None":
        """None where the job wants no advice, or has no critic to place."""
        return None if plan.balance.mode == "None" or "Critic" not in plan.placement.roles else cls(plan)

    def event(self, event: Mapping[str, Any]) -> None:
        """Before the first step the run tells of its machine."""
        self._machine = Machine.newest([event]) or self._machine

    def step(self, report: StepReport) -> dict[str, Any] | None:
        """The status with this step taken in; None while there are too few."""
        self.take(report)
        advice = self.advice()
        if advice is None:
            return None
        return recommendation_status(advice, min_gain_percent=self._plan.balance.min_gain_percent)

    def take(self, report: StepReport) -> None:
        self._steps.append(StepRecord.from_line({"step": report.step, "metrics": plain(report.metrics)}))

    def advice(self) -> Advice | None:
        if len(self._steps) < FEWEST:
            return None
        run = RunRecord(self._plan.job.name, self._plan, tuple(self._steps), self._machine)
        return advise([measured(run)], self._plan.verl, spread=figures(run).spread)


class SplitMove(Exception):
    """The run is to go on elsewhere, with this plan."""

    def __init__(self, plan: RunPlan, sentence: str, *, step: int) -> None:
        super().__init__(sentence)
        self.plan, self.sentence, self.step = plan, sentence, step


class Mover:
    """A sink that watches a run's steps and knows when it should move."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan, self._recommender = plan, Recommender(plan)

    @classmethod
    def for_plan(cls, plan: RunPlan) -> "Mover | None":
        return cls(plan) if plan.balance.mode == "Apply" and plan.storage.path else None

    def event(self, event: Mapping[str, Any]) -> None:
        self._recommender.event(event)

    def step(self, report: StepReport) -> None:
        self._recommender.take(report)

    def close(self) -> None:
        """Nothing is open."""

    def look(self, step: int) -> None:
        """Raises SplitMove if the run should go on on another split, from the checkpoint of `step`."""
        advice, balance = self._recommender.advice(), self._plan.balance
        if advice is None:
            return
        move = next_move(advice, balance.tried, min_gain_percent=balance.min_gain_percent)
        if move is None:
            return
        left = {
            "tried": {**balance.tried, advice.measured.split: advice.measured.seconds},
            "asked": balance.asked or advice.measured.split,
            "mode": "Recommend" if move.final else "Apply",
        }
        changed = {"placement": move.placement, "balance": balance.model_copy(update=left)}
        raise SplitMove(self._plan.model_copy(update=changed), move.sentence, step=step)


def balance_status(plan: RunPlan) -> dict[str, Any] | None:
    """Where a run has moved to, in the words of `status.balance`; None for one that never did."""
    balance = plan.balance
    if balance.asked is None:
        return None
    return {
        "asked": balance.asked,
        "split": split_name(plan.placement),
        "tried": {split: round(seconds, 3) for split, seconds in balance.tried.items()},
        "settled": balance.mode != "Apply",
    }


def recommendation_status(advice: Advice, *, min_gain_percent: int) -> dict[str, Any]:
    """The advice in the words of `status.recommendation`."""
    worth_it = advice.gain_percent >= min_gain_percent
    message = advice.sentence()
    if not advice.stay and not worth_it:
        message += f" That is less than balance.minGainPercent ({min_gain_percent}%): the split is left as it is."
    return {
        "best": advice.best.split if worth_it else advice.measured.split,
        "gainPercent": round(advice.gain_percent, 1) if worth_it else 0.0,
        "message": message,
        "predictions": [{"split": p.split, "stepSeconds": round(p.seconds, 3)} for p in advice.ranking[:64]],
    }
