"""What a job holds in the cluster and what becomes of it: sentences for `suspend` and `delete`. Pure."""

from split_ppo.cli.jobs import JobOnCluster
from split_ppo.placement.planner import plan_placement
from split_ppo_operator.desired.plan_file import checkpoint_folder
from split_ppo_operator.desired.pods import pool_shape

HOLDING = ("Provisioning", "Starting", "Running", "Recovering")


def held(found: JobOnCluster) -> str | None:
    """`16 nvidia.com/gpu in 4 pods, and the head`; None when it holds nothing."""
    kept = found.finished and found.job.spec.run_policy.cleanup != "Cluster"
    if kept:
        workers = "the head pod" if found.job.spec.run_policy.cleanup == "Workers" else "all its pods"
        return f"{workers}, kept by cleanup: {found.job.spec.run_policy.cleanup}"
    if found.phase not in HOLDING:
        return None
    plan = plan_placement(found.job.spec.placement)
    pods = sum(pool.nodes for pool in plan.pools)
    if plan.device == "CPU":
        return f"{_count(pods, 'pod')} and the head"
    amounts: dict[str, int] = {}
    for pool in plan.pools:
        resource = pool_shape(found.job.spec, pool.name).gpu_resource
        amounts[resource] = amounts.get(resource, 0) + pool.world_size
    gpus = " and ".join(f"{count} {resource}" for resource, count in amounts.items())
    return f"{gpus} in {_count(pods, 'pod')}, and the head"


def after_suspension(found: JobOnCluster) -> str:
    """From where the training would go on."""
    training = found.status.training
    if found.job.spec.storage.checkpoints is None:
        done = f", and {training.step} steps are lost" if training and training.step else ""
        return f"There is no storage.checkpoints: resumed, it starts again at step 0{done}."
    if training is not None and training.checkpoint:
        return f"Resumed, it goes on from {training.checkpoint}."
    return "There is no checkpoint yet: resumed, it starts again at step 0."


def after_deletion(found: JobOnCluster) -> str:
    """What a deleted job leaves behind."""
    checkpoints = found.job.spec.storage.checkpoints
    if checkpoints is None:
        return "Its progress and its logs go with it: there is no storage.checkpoints."
    folder = checkpoint_folder(found.job)
    where = f" on the claim {checkpoints.claim_name}" if checkpoints.claim_name else ""
    return f"Its checkpoints and logs stay{where}, in {folder}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
