"""The pod templates of the head and of each pool.

Everything passes Pod Security `restricted`. Requests equal limits where GPUs are at stake, because KubeRay tells Ray what the
limits say; with device CPU Ray is told its slots and CPUs by name and the pods ask for little, so that a laptop can hold them.
"""

from typing import Any

from split_ppo import versions
from split_ppo.api.job import SplitPPOJob, SplitPPOJobSpec
from split_ppo.api.placement_spec import Head, PodShape
from split_ppo.placement.plan import PlacementPlan, PoolPlan
from split_ppo_operator.desired import names
from split_ppo_operator.desired.affinity import affinity
from split_ppo_operator.desired.overlay import overlay
from split_ppo_operator.desired.plan_file import run_plan

Object = dict[str, Any]
# What the training needs in its processes' environment the trainer sets itself, through Ray.
_OURS: dict[str, Object] = {"RAY_USAGE_STATS_ENABLED": {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}}
# What a pod asks of a machine without GPUs, for itself and for each slot.
_CPU_REQUEST_MILLI = 250


def head_template(job: SplitPPOJob, plan: PlacementPlan, *, attempt: int) -> Object:
    head = job.spec.placement.head
    container = _container(job, resources=_head_resources(head, plan))
    # A head that names any port must name the dashboard's, or KubeRay can't reach the Jobs API.
    container["ports"] = [
        {"name": "gcs-server", "containerPort": 6379},
        {"name": "dashboard", "containerPort": 8265},
        {"name": "client", "containerPort": 10001},
        {"name": "metrics", "containerPort": 8080},
    ]
    container["volumeMounts"].append({"name": "plan", "mountPath": names.PLAN_DIR, "readOnly": True})
    name = job.metadata.name
    spec = _pod_spec(job.spec, container, head)
    spec["serviceAccountName"] = names.trainer_name(name, job.metadata.uid)
    shown = {"path": names.PLAN_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{names.PLAN_ANNOTATION}']"}}
    spec["volumes"].append({"name": "plan", "downwardAPI": {"items": [shown]}})
    annotations = {names.PLAN_ANNOTATION: run_plan(job, plan, attempt=attempt).model_dump_json(by_alias=True)}
    metadata = {"labels": names.labels(name, attempt=attempt), "annotations": annotations}
    return _template(metadata, spec, head.pod_template)


def worker_template(job: SplitPPOJob, plan: PlacementPlan, pool: PoolPlan, *, attempt: int) -> Object:
    shape = pool_shape(job.spec, pool.name)
    container = _container(job, resources=_worker_resources(shape, pool, plan))
    spec = _pod_spec(job.spec, container, shape)
    # Only the head may speak to the API server.
    spec["automountServiceAccountToken"] = False
    if shape.shared_memory is not None:
        container["volumeMounts"].append({"name": "shared-memory", "mountPath": "/dev/shm"})
        spec["volumes"].append(
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": shape.shared_memory}}
        )
    apart = affinity(job, plan, pool, attempt=attempt)
    if apart:
        spec["affinity"] = apart
    metadata = {"labels": names.labels(job.metadata.name, attempt=attempt, pool=pool.name)}
    return _template(metadata, spec, shape.pod_template)


def _template(metadata: Object, spec: Object, asked: Object) -> Object:
    """Ours with the user's over it, except for our own labels and annotations: by them pods are found and the plan is read."""
    return _put_back(overlay({"metadata": metadata, "spec": spec}, asked), {"metadata": metadata})


def _put_back(made: Object, ours: Object) -> Object:
    """What is no mapping where one belongs is left for the API server to refuse."""
    result = dict(made)
    for key, value in ours.items():
        there = result.get(key, {})
        if not isinstance(value, dict):
            result[key] = value
        elif isinstance(there, dict):
            result[key] = _put_back(there, value)
    return result


def pool_shape(spec: SplitPPOJobSpec, pool: str) -> PodShape:
    """What was said of the pool's pods: by itself, or for the total it was cut from."""
    placement = spec.placement
    shape = getattr(placement.pools, pool) if placement.pools is not None else placement.total
    assert isinstance(shape, PodShape)
    return shape


def ray_cpus(shape: PodShape, pool: PoolPlan) -> int:
    return shape.cpus_per_gpu * pool.gpus_per_node + 1


def pod_request(job: SplitPPOJob, plan: PlacementPlan, pool: str | None) -> str:
    """What a pod asks for, in words; the head for None."""
    if pool is None:
        resources = _head_resources(job.spec.placement.head, plan)
    else:
        resources = _worker_resources(pool_shape(job.spec, pool), plan.pool(pool), plan)
    return ", ".join(f"{key} {value}" for key, value in resources["requests"].items())


def _head_resources(head: Head, plan: PlacementPlan) -> Object:
    memory = {"memory": head.memory} if head.memory else {}
    if plan.device == "CPU":
        return {"requests": {"cpu": f"{_CPU_REQUEST_MILLI}m", **memory}, **({"limits": memory} if memory else {})}
    amounts = {"cpu": str(head.cpus), **memory}
    return {"requests": dict(amounts), "limits": amounts}


def _worker_resources(shape: PodShape, pool: PoolPlan, plan: PlacementPlan) -> Object:
    memory = {"memory": shape.memory} if shape.memory else {}
    if plan.device == "CPU":
        milli = _CPU_REQUEST_MILLI * (1 + pool.gpus_per_node)
        return {"requests": {"cpu": f"{milli}m", **memory}, **({"limits": memory} if memory else {})}
    amounts = {"cpu": str(ray_cpus(shape, pool)), **memory, shape.gpu_resource: str(pool.gpus_per_node)}
    return {"requests": dict(amounts), "limits": amounts}


def _container(job: SplitPPOJob, *, resources: Object) -> Object:
    spec = job.spec
    default = versions.TRAINER_IMAGE_CPU if spec.placement.device == "CPU" else versions.TRAINER_IMAGE
    container: Object = {
        "name": "ray",
        "image": spec.image or default,
        "env": _environment(spec),
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [],
    }
    if spec.image_pull_policy:
        container["imagePullPolicy"] = spec.image_pull_policy
    for index, volume in enumerate(spec.storage.volumes):
        mount: Object = {"name": f"volume-{index}", "mountPath": volume.path, "readOnly": volume.read_only}
        container["volumeMounts"].append({**mount, **({"subPath": volume.sub_path} if volume.sub_path else {})})
    checkpoints = spec.storage.checkpoints
    if checkpoints is not None and checkpoints.claim_name is not None:
        container["volumeMounts"].append({"name": "checkpoints", "mountPath": checkpoints.path})
    function = spec.training.reward.function
    if function is not None and function.config_map is not None:
        container["volumeMounts"].append({"name": "reward", "mountPath": names.REWARD_DIR, "readOnly": True})
    return container


def _environment(spec: SplitPPOJobSpec) -> list[Object]:
    """Ours first; a user's variable of the same name takes its place."""
    asked = {e.name: e.model_dump(by_alias=True, exclude_none=True) for e in spec.env}
    return list({**_OURS, **asked}.values())


def _pod_spec(spec: SplitPPOJobSpec, container: Object, where: Head | PodShape) -> Object:
    pod: Object = {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [],
    }
    if where.node_selector:
        pod["nodeSelector"] = dict(where.node_selector)
    if where.tolerations:
        pod["tolerations"] = [t.model_dump(by_alias=True, exclude_none=True) for t in where.tolerations]
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": s.name} for s in spec.image_pull_secrets]
    if spec.scheduling.priority_class_name:
        pod["priorityClassName"] = spec.scheduling.priority_class_name
    for index, volume in enumerate(spec.storage.volumes):
        claim: Object = {"claimName": volume.claim_name, **({"readOnly": True} if volume.read_only else {})}
        pod["volumes"].append({"name": f"volume-{index}", "persistentVolumeClaim": claim})
    checkpoints = spec.storage.checkpoints
    if checkpoints is not None and checkpoints.claim_name is not None:
        pod["volumes"].append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": checkpoints.claim_name}})
    function = spec.training.reward.function
    if function is not None and function.config_map is not None:
        pod["volumes"].append(
            {
                "name": "reward",
                "configMap": {"name": function.config_map, "items": [{"key": function.key, "path": function.key}]},
            }
        )
    return pod
