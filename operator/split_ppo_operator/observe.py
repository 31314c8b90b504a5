"""Reading: everything a decision needs, into one Snapshot. Decides nothing but what is worth asking for."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from split_ppo.api.job import parse_job
from split_ppo.placement.checks import check_job
from split_ppo_operator.capacity import FreeCount
from split_ppo_operator.cluster import EVENTS, JOBS, NODES, PODS, RAY_CLUSTERS, WORKLOADS, ApiError, Cluster, controller
from split_ppo_operator.desired.names import JOB_LABEL
from split_ppo_operator.desired.reach import beyond
from split_ppo_operator.moves import with_moves
from split_ppo_operator.pod_reasons import lacking, view_pod
from split_ppo_operator.pools import readiness
from split_ppo_operator.ray_api import RayApi, RayNotAnswering
from split_ppo_operator.snapshot import ClusterView, PodView, Snapshot
from split_ppo_operator.submission import submission_id

Object = dict[str, Any]


async def observe(
    cluster: Cluster,
    namespace: str,
    name: str,
    *,
    allowed: frozenset[str] = frozenset(),
    newborn: Object | None = None,
) -> Snapshot | None:
    """The job and all that belongs to it; None where the job is gone or going. Of a new one all is known already."""
    selector = f"{JOB_LABEL}={name}"
    found, listed = (
        (newborn, [])
        if newborn is not None
        else await asyncio.gather(
            cluster.get(JOBS, name, namespace=namespace),
            _or_error(cluster.find(RAY_CLUSTERS, namespace=namespace, labels=selector)),
        )
    )
    if found is None or found["metadata"].get("deletionTimestamp"):
        return None
    job = parse_job(found)
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    job, plan = with_moves(job, check_job(job))
    plan = plan.model_copy(update={"findings": plan.findings + beyond(job, plan, allowed=allowed)})
    snapshot = Snapshot(job=job, plan=plan, raw_status=found.get("status", {}), created=created)
    try:
        if isinstance(listed, ApiError):
            raise listed
        return await _with_children(cluster, namespace, selector, listed, snapshot)
    except ApiError as error:
        hindrance = _hindrance(error)
        if hindrance is None:
            raise
        return replace(snapshot, hindrance=hindrance)


async def _or_error(listing: Awaitable[list[Object]]) -> list[Object] | ApiError:
    try:
        return await listing
    except ApiError as error:
        return error


async def _with_children(
    cluster: Cluster, namespace: str, selector: str, listed: list[Object], snapshot: Snapshot
) -> Snapshot:
    owned = [c for c in listed if controller(c) == snapshot.job.metadata.uid]
    snapshot = replace(snapshot, clusters=tuple(_view_cluster(c) for c in owned))
    if not owned and not _held_pods(snapshot):
        return snapshot
    snapshot = replace(snapshot, pods=await _pods(cluster, namespace, selector, snapshot))
    snapshot = replace(snapshot, clusters=tuple([await _explained(cluster, snapshot, c) for c in owned]))
    return await _with_ray(cluster, snapshot)


def _hindrance(error: ApiError) -> tuple[str, str] | None:
    """What only a person can mend; anything else is tried again."""
    if error.status == 404:
        return "KubeRayMissing", "The cluster has no RayClusters: install KubeRay, and the job goes on by itself."
    if error.status == 403:
        return "Forbidden", f"The operator is not allowed to look: {error.message}"
    return None


async def _pods(cluster: Cluster, namespace: str, selector: str, snapshot: Snapshot) -> tuple[PodView, ...]:
    """Pods of the current RayCluster; where there is none any more, whatever is left of the job."""
    listed = await cluster.find(PODS, namespace=namespace, labels=selector)
    current = snapshot.cluster
    mine = [p for p in listed if current is None or controller(p) == current.uid]
    lost = await _lost_nodes(cluster, mine)
    free = await _free(cluster, mine)
    return tuple(_spoken(p, view_pod(p, lost_nodes=lost), free) for p in mine)


async def _lost_nodes(cluster: Cluster, pods: Iterable[Object]) -> frozenset[str]:
    """Nodes that do not answer. Asked for only when a pod that was started is not ready: nodes are not ours to watch."""
    suspects = {
        p["spec"]["nodeName"]
        for p in pods
        if p["spec"].get("nodeName")
        and any(c["type"] == "Ready" and c["status"] == "False" for c in p["status"].get("conditions", []))
    }
    lost = set()
    for name in suspects:
        try:
            node = await cluster.get(NODES, name)
        except ApiError as error:
            if error.status == 403:
                return frozenset()  # watching single namespaces only: nodes can't be seen
            raise
        if node is None or _condition(node, "Ready").get("status") != "True":
            lost.add(name)
    return frozenset(lost)


async def _free(cluster: Cluster, pods: Iterable[Object]) -> dict[str, str]:
    """For each resource that the scheduler found too little of: how much of it is free, as words."""
    wanted = {r for p in pods for r in lacking(p) if "/" in r}
    try:
        return {resource: await cluster.remembered(f"free {resource}", _count_free, resource) for resource in wanted}
    except ApiError as error:
        if error.status == 403:
            return {}
        raise


async def _count_free(cluster: Cluster, resource: str) -> str:
    """Every pod of the cluster is looked at, page by page: there may be many more of them than we want to hold."""
    count = FreeCount(resource)
    async for nodes in cluster.pages(NODES):
        count.add_nodes(nodes)
    async for pods in cluster.pages(PODS, fields="spec.nodeName!="):
        count.add_pods(pods)
    return count.words()


def _spoken(pod: Object, view: PodView, free: dict[str, str]) -> PodView:
    if view.reason != "Unschedulable" or not view.message:
        return view
    more = " ".join(text for resource, text in free.items() if resource in lacking(pod))
    return replace(view, message=f"{view.message} {more}".strip())


async def _explained(cluster: Cluster, snapshot: Snapshot, found: Object) -> ClusterView:
    """The RayCluster with what keeps it: Kueue's reason while suspended, KubeRay's complaint where there are no pods."""
    view = _view_cluster(found)
    namespace = found["metadata"]["namespace"]
    if view.suspended:
        return replace(view, problem=await _queue_reason(cluster, namespace, view.uid))
    failure = next(
        (
            c
            for c in found.get("status", {}).get("conditions", [])
            if c["type"] == "ReplicaFailure" and c["status"] == "True"
        ),
        None,
    )
    if failure is not None:
        return replace(view, problem=("PodsRefused", f"KubeRay can't make all pods: {failure['message']}"))
    if snapshot.pods or found.get("status", {}).get("conditions"):
        return view
    return replace(view, problem=await _complaint(cluster, namespace, view.name))


async def _complaint(cluster: Cluster, namespace: str, name: str) -> tuple[str, str] | None:
    """KubeRay says what is wrong with a RayCluster only in an Event."""
    fields = f"involvedObject.kind=RayCluster,involvedObject.name={name}"
    try:
        events = await cluster.find(EVENTS, namespace=namespace, fields=fields)
    except ApiError as error:
        if error.status == 403:
            return None  # only a sentence the poorer
        raise
    for event in events:
        if event.get("reason", "").startswith("InvalidRayCluster"):
            return "RefusedByKubeRay", f"KubeRay refuses the RayCluster: {event.get('message', '')}"
    return None


async def _queue_reason(cluster: Cluster, namespace: str, uid: str) -> tuple[str, str] | None:
    try:
        workloads = await cluster.find(WORKLOADS, namespace=namespace, labels=f"kueue.x-k8s.io/job-uid={uid}")
    except ApiError as error:
        if error.status in (403, 404):
            return None
        raise
    for workload in workloads:
        conditions = {c["type"]: c for c in workload.get("status", {}).get("conditions", [])}
        waiting = conditions.get("QuotaReserved", {})
        if waiting.get("status") == "False":
            return "Queued", str(waiting.get("message", ""))
    return None


async def _with_ray(cluster: Cluster, snapshot: Snapshot) -> Snapshot:
    """Ask Ray only what the next decision needs, and only when there is a head to ask."""
    attempt, head = snapshot.attempt, snapshot.head
    namespace = snapshot.job.metadata.namespace or ""
    # A RayCluster of this job: its name stands in the status, which the trainer may write as well.
    if attempt is None or snapshot.cluster is None or head is None or not head.ready:
        return snapshot
    submitted = attempt.submission_id is not None
    if not submitted and not readiness(snapshot).complete:
        return snapshot
    ray = RayApi(cluster, namespace, snapshot.cluster.name)
    try:
        found = await ray.submission(submission_id(snapshot.job, attempt.number))
        nodes = None if submitted else await ray.nodes()
        return replace(snapshot, submission=found, ray_nodes=nodes)
    except RayNotAnswering as problem:
        return replace(snapshot, blind=str(problem))


def _view_cluster(found: Object) -> ClusterView:
    metadata = found["metadata"]
    return ClusterView(
        name=metadata["name"],
        uid=metadata["uid"],
        suspended=bool(found.get("spec", {}).get("suspend")),
        deleting=bool(metadata.get("deletionTimestamp")),
        replicas=tuple((g["groupName"], g.get("replicas", 0)) for g in found["spec"].get("workerGroupSpecs", [])),
    )


def _held_pods(snapshot: Snapshot) -> bool:
    """Pods outlive their RayCluster by their grace period; until they are gone their GPUs are not free."""
    return bool(
        snapshot.job.spec.suspend and snapshot.last_attempt is not None and snapshot.status.reason != "Suspended"
    )


def _condition(found: Object, kind: str) -> Object:
    return next((c for c in found.get("status", {}).get("conditions", []) if c["type"] == kind), {})
