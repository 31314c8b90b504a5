"""The trainer's plan as the head pod has it: an annotation of the pod, which the downward API shows as a file.

It travels with the RayCluster instead of in an object of its own: there is nothing to wait for before the RayCluster may be made,
and no pod without its plan.
"""

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import PlacementPlan
from split_ppo.runplan import RunPlan, resolve
from split_ppo_operator.desired import names


def run_plan(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> RunPlan:
    """With paths as they are in the pods."""
    function = job.spec.training.reward.function
    reward = None
    if function is not None:
        reward = f"{names.REWARD_DIR}/{function.key}" if function.config_map else function.path
    return resolve(job, plan, attempt=attempt, checkpoint_dir=checkpoint_folder(job), reward_file=reward)


def checkpoint_folder(job: SplitPPOJob) -> str | None:
    """The job's own folder on the checkpoints' volume.

    Of this object, not of this name: a job that is deleted and made again starts afresh, as a Job does, and what the
    one before wrote stays where it is.
    """
    checkpoints, metadata = job.spec.storage.checkpoints, job.metadata
    own = f"{metadata.name}-{metadata.uid[:8]}" if metadata.uid else metadata.name
    return f"{checkpoints.path.rstrip('/')}/{own}" if checkpoints else None
