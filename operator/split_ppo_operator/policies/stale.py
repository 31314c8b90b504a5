"""RayClusters of this job that no attempt uses any more are deleted: they would hold GPUs."""

from dataclasses import replace

from split_ppo_operator.actions import DeleteCluster
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict


def with_stale_clusters_deleted(snapshot: Snapshot, verdict: Verdict) -> Verdict:
    attempt = verdict.attempt or snapshot.attempt or snapshot.last_attempt
    used = attempt.cluster if attempt is not None else None
    stale = tuple(DeleteCluster(c.name, c.uid) for c in snapshot.clusters if c.name != used and not c.deleting)
    return replace(verdict, actions=(*stale, *verdict.actions)) if stale else verdict


def delete_all_clusters(snapshot: Snapshot) -> tuple[DeleteCluster, ...]:
    return tuple(DeleteCluster(c.name, c.uid) for c in snapshot.clusters if not c.deleting)
