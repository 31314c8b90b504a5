"""`status.recommendation`: what the steps so far say about other splits of the same GPUs.

Said from the fifth timed step on, and from then on at every step, over the last fifty: medians then move little. A better split
is named only when it would save at least `balance.minGainPercent`.
"""

from collections import deque
from typing import Any

from split_ppo.compare.figures import figures, measured
from split_ppo.compare.run_record import RunRecord, StepRecord
from split_ppo.placement.advice import Advice, advise
from split_ppo.runplan import RunPlan
from split_ppo_trainer.progress import StepReport, plain

FEWEST, MOST = 6, 50  # the first step is not timed


class Recommender:
    """Takes a run's steps one by one."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._steps: deque[StepRecord] = deque(maxlen=MOST)

    @classmethod
    def for_plan(cls, plan: RunPlan) -> "Recommender | None":
        """None where the job wants no advice, or has no critic to place."""
        return None if plan.balance.mode == "None" or "Critic" not in plan.placement.roles else cls(plan)

    def step(self, report: StepReport) -> dict[str, Any] | None:
        """The status with this step taken in; None while there are too few."""
        self._steps.append(StepRecord.from_line({"step": report.step, "metrics": plain(report.metrics)}))
        if len(self._steps) < FEWEST:
            return None
        run = RunRecord(self._plan.job.name, self._plan, tuple(self._steps))
        found = figures(run)
        advice = advise([measured(run)], self._plan.verl, spread=found.spread)
        return recommendation_status(advice, min_gain_percent=self._plan.balance.min_gain_percent)


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
