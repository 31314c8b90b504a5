"""`balance.mode: Apply`: which split of the job's GPUs an attempt is placed on. Pure.

The trainer measures, decides and ends; what it decided stands in `status.balance`. An attempt keeps the split that it began
with, and the next one takes the one that was decided. Only names pass between the two: whatever a trainer writes there, what
is made of it is one of the splits that this job's own GPUs and batches allow.
"""

from split_ppo.api.job import SplitPPOJob
from split_ppo.api.status import SplitPPOJobStatus
from split_ppo.placement.plan import PlacementPlan
from split_ppo.placement.splits import other_splits, split_name
from split_ppo.verl_config import verl_settings

# The trainer's exit code for a run that goes on on another split.
MOVED = 4


def with_moves(job: SplitPPOJob, asked: PlacementPlan) -> tuple[SplitPPOJob, PlacementPlan]:
    """The job and the plan of its attempt, given the plan that its spec asks for. Moves made for another spec are forgotten."""
    status = job.status or SplitPPOJobStatus()
    moved = status.balance
    if moved is not None and (job.spec.balance.mode != "Apply" or moved.asked != split_name(asked)):
        job = job.model_copy(update={"status": status.model_copy(update={"balance": None})})
        moved = None
    # What runs stays where it is, whatever was decided or forgotten meanwhile.
    running = next((a.split for a in status.attempts or () if a.outcome == "Running"), None)
    wanted = running or (moved.split if moved is not None else None)
    if wanted in (None, split_name(asked)):
        return job, asked
    others = other_splits(asked, verl_settings(job.spec))
    return job, next((plan for plan in others if split_name(plan) == wanted), asked)
