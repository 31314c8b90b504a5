"""Everything that is made for an attempt, in the order it is applied."""

from typing import Any

from split_ppo.api import API_VERSION, GROUP, KIND, PLURAL
from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import PlacementPlan
from split_ppo.runplan import RunPlan, resolve
from split_ppo_operator.desired import names
from split_ppo_operator.desired.raycluster import ray_cluster

Object = dict[str, Any]


def desired_objects(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> list[Object]:
    """The objects of an attempt: what the trainer may do, what it shall do, and where."""
    return [owned(job, o) for o in (*trainer_rights(job), plan_config_map(job, plan, attempt=attempt))] + [
        owned(job, ray_cluster(job, plan, attempt=attempt))
    ]


def run_plan(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> RunPlan:
    """The trainer's plan file, with paths as they are in the pods."""
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


def plan_config_map(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> Object:
    name = job.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.plan_name(name, attempt), "labels": names.labels(name, attempt=attempt)},
        "data": {names.PLAN_FILE: run_plan(job, plan, attempt=attempt).to_json()},
    }


def trainer_rights(job: SplitPPOJob) -> tuple[Object, Object, Object]:
    """The trainer may patch the status of its own job, and nothing else."""
    name = names.trainer_name(job.metadata.name, job.metadata.uid)
    metadata = {"name": name, "labels": names.labels(job.metadata.name)}
    rule = {
        "apiGroups": [GROUP],
        "resources": [f"{PLURAL}/status"],
        "resourceNames": [job.metadata.name],
        "verbs": ["patch"],
    }
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": True},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        },
    )


def owned(job: SplitPPOJob, manifest: Object) -> Object:
    """Ours to delete with the job; a job that is only planned has no uid yet and owns nothing."""
    metadata = dict(manifest["metadata"])
    if job.metadata.namespace:
        metadata["namespace"] = job.metadata.namespace
    if job.metadata.uid:
        metadata["ownerReferences"] = [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": job.metadata.name,
                "uid": job.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {**manifest, "metadata": metadata}
