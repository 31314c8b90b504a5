"""Everything that is made for an attempt, in the order it is applied."""

from typing import Any

from split_ppo.api import API_VERSION, GROUP, KIND, PLURAL
from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import PlacementPlan
from split_ppo_operator.desired import names
from split_ppo_operator.desired.raycluster import ray_cluster

Object = dict[str, Any]


def desired_objects(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> list[Object]:
    """The objects of an attempt: what the trainer may do, and where and what it shall do."""
    return [owned(job, made) for made in (*trainer_rights(job), ray_cluster(job, plan, attempt=attempt))]


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
