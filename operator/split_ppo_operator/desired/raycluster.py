"""The RayCluster of an attempt: a head without GPUs and one worker group per pool."""

from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import PlacementPlan, PoolPlan
from split_ppo_operator.desired import names
from split_ppo_operator.desired.pods import head_template, pool_shape, ray_cpus, worker_template

Object = dict[str, Any]


def ray_cluster(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> Object:
    name = job.metadata.name
    metadata: Object = {
        "name": names.cluster_name(name, attempt),
        "labels": {**names.labels(name, attempt=attempt), **queue_labels(job)},
    }
    if job.metadata.namespace:
        metadata["namespace"] = job.metadata.namespace
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": {
            "rayVersion": job.spec.ray_version,
            # Without a token anybody who reaches the dashboard's port runs code here.
            "authOptions": {"mode": "token"},
            "headGroupSpec": {
                "rayStartParams": {"dashboard-host": "0.0.0.0"},
                "template": head_template(job, plan, attempt=attempt),
                # On machines without GPUs the pod's limits say nothing, so Ray is told by name.
                **({"resources": {"CPU": str(job.spec.placement.head.cpus)}} if plan.device == "CPU" else {}),
            },
            "workerGroupSpecs": [_worker_group(job, plan, pool, attempt=attempt) for pool in plan.pools],
        },
    }


def without_workers(job: SplitPPOJob, plan: PlacementPlan, *, name: str, uid: str) -> Object:
    """This very RayCluster with its pools at zero: the head stays, for its logs."""
    manifest = ray_cluster(job, plan, attempt=int(name.rsplit("-", 1)[1]))
    manifest["metadata"]["uid"] = uid
    for group in manifest["spec"]["workerGroupSpecs"]:
        group |= {"replicas": 0, "minReplicas": 0, "maxReplicas": 0}
    return manifest


def _worker_group(job: SplitPPOJob, plan: PlacementPlan, pool: PoolPlan, *, attempt: int) -> Object:
    resources = {pool.resource: str(pool.gpus_per_node)}
    if plan.device == "CPU":
        resources |= {
            "GPU": str(pool.gpus_per_node),
            "CPU": str(ray_cpus(pool_shape(job.spec, pool.name), pool)),
        }
    return {
        "groupName": pool.name,
        # All three equal: a pool is whole or not there, and gang schedulers count minReplicas.
        "replicas": pool.nodes,
        "minReplicas": pool.nodes,
        "maxReplicas": pool.nodes,
        "rayStartParams": {},
        "resources": resources,
        "labels": {names.POOL_LABEL: pool.name},
        "template": worker_template(job, plan, pool, attempt=attempt),
    }


def queue_labels(job: SplitPPOJob) -> dict[str, str]:
    """Labels by which gang schedulers and queues know the RayCluster."""
    scheduling, queue = job.spec.scheduling, job.spec.scheduling.queue_name
    match scheduling.gang_scheduler:
        case "Volcano":
            found = {"volcano.sh/queue-name": queue} if queue else {}
            if scheduling.priority_class_name:
                found["ray.io/priority-class-name"] = scheduling.priority_class_name
            return found
        case "YuniKorn":
            app = {"yunikorn.apache.org/app-id": job.metadata.name, "ray.io/gang-scheduling-enabled": "true"}
            return {**app, **({"yunikorn.apache.org/queue": queue} if queue else {})}
        case "KAI":
            return {"kai.scheduler/queue": queue} if queue else {}
        case "SchedulerPlugins":
            return {"ray.io/gang-scheduling-enabled": "true"}
        case None:
            # Kueue takes the priority from the pods' PriorityClass.
            return {"kueue.x-k8s.io/queue-name": queue} if queue else {}
