"""How far the pools are: counted from pods, because a RayCluster's own status is sticky and knows no groups."""

from dataclasses import dataclass

from split_ppo.api.status import PoolStatus
from split_ppo_operator.pod_reasons import worst
from split_ppo_operator.snapshot import Snapshot


@dataclass(frozen=True)
class Readiness:
    """Whether head and pools are all there, and if not, the one thing to say about it."""

    complete: bool
    reason: str
    message: str


def pool_statuses(snapshot: Snapshot) -> list[PoolStatus]:
    found = []
    for pool in snapshot.plan.pools:
        pods = [p for p in snapshot.pods if p.pool == pool.name]
        speaker = worst(pods)
        ready = sum(p.ready for p in pods)
        short = ready < pool.nodes
        found.append(
            PoolStatus(
                name=pool.name,
                gpus=pool.world_size,
                desired=pool.nodes,
                ready=min(ready, pool.nodes),
                reason=speaker.reason if speaker and short else None,
                message=speaker.message if speaker and short else None,
            )
        )
    return found


def pool_summary(pools: list[PoolStatus]) -> str:
    return ", ".join(f"{p.name} {p.ready}/{p.desired}" for p in pools)


def readiness(snapshot: Snapshot) -> Readiness:
    pools, head = pool_statuses(snapshot), snapshot.head
    missing = [p for p in pools if p.ready < p.desired]
    if head is not None and head.ready and not missing:
        return Readiness(True, "AllReady", f"All pools are ready: {pool_summary(pools)}.")
    changed = _changed(snapshot)
    if changed is not None:
        return Readiness(False, "ClusterChanged", f"{pool_summary(pools)}. {changed}")
    problem = snapshot.cluster.problem if snapshot.cluster is not None else None
    if problem is not None:
        return Readiness(False, *problem)
    speaker = worst(list(snapshot.pods))
    if speaker is not None and speaker.reason and speaker.message:
        return Readiness(False, speaker.reason, f"{pool_summary(pools)}. {speaker.message}")
    what = "the head" if head is None or not head.ready else f"the pool {missing[0].name}"
    return Readiness(False, "WaitingForPods", f"{pool_summary(pools)}. Waiting for KubeRay to make the pods of {what}.")


def _changed(snapshot: Snapshot) -> str | None:
    """A pool that somebody else made larger or smaller. It is told, not fought over: a new attempt mends it."""
    cluster = snapshot.cluster
    if cluster is None or not cluster.replicas:
        return None
    there = dict(cluster.replicas)
    for pool in snapshot.plan.pools:
        if there.get(pool.name) != pool.nodes:
            found = there.get(pool.name)
            how = f"has {found} replicas instead of {pool.nodes}" if found is not None else "was removed"
            return (
                f"Somebody changed the RayCluster {cluster.name}: its group {pool.name} {how}. "
                "Put it back, or delete the RayCluster to get a new one."
            )
    return None
