"""After the end: give back what the cleanup policy says, and delete the job itself when its time has come."""

from datetime import datetime, timedelta

from split_ppo_operator.actions import Action, DeleteJob, ShrinkCluster
from split_ppo_operator.desired.objects import owned
from split_ppo_operator.desired.raycluster import without_workers
from split_ppo_operator.policies.stale import delete_all_clusters
from split_ppo_operator.snapshot import HEAD, Snapshot
from split_ppo_operator.verdict import Verdict


def finish(snapshot: Snapshot, now: datetime) -> Verdict:
    status = snapshot.status
    assert status.phase is not None
    actions, again = list(_cleanup(snapshot)), None
    ttl, ended_at = snapshot.job.spec.run_policy.ttl_seconds_after_finished, status.finished_at
    if ttl is not None and ended_at is not None and snapshot.job.metadata.uid:
        left = (ended_at + timedelta(seconds=ttl) - now).total_seconds()
        if left <= 0:
            actions.append(DeleteJob(snapshot.job.metadata.uid))
        else:
            again = left
    if actions and again is None:
        again = 5.0
    return Verdict(
        phase=status.phase,
        reason=status.reason or status.phase,
        message=status.message or "",
        actions=tuple(actions),
        again=again,
    )


def _cleanup(snapshot: Snapshot) -> tuple[Action, ...]:
    match snapshot.job.spec.run_policy.cleanup:
        case "Cluster":
            return delete_all_clusters(snapshot)
        case "Workers":
            last = snapshot.last_attempt
            workers = any(p.pool != HEAD and not p.deleting for p in snapshot.pods)
            found = next((c for c in snapshot.clusters if last is not None and c.name == last.cluster), None)
            if found is None or not workers or found.deleting:
                return ()
            if snapshot.job.spec.scheduling.kueue:
                # The groups are Kueue's to change: GPUs go back all the same, the head's logs with them.
                return delete_all_clusters(snapshot)
            manifest = without_workers(snapshot.job, snapshot.plan, name=found.name, uid=found.uid)
            return (ShrinkCluster(owned(snapshot.job, manifest)),)
        case "None":
            return ()
