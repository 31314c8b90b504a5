"""Beginning an attempt: which number, on which RayCluster, and how soon after a failure."""

from datetime import datetime, timedelta

from split_ppo.api.status import AttemptStatus
from split_ppo.placement.splits import split_name
from split_ppo_operator.actions import Apply
from split_ppo_operator.desired import cluster_name, desired_objects
from split_ppo_operator.snapshot import ClusterView, Snapshot
from split_ppo_operator.verdict import Verdict

FIRST_DELAY, LONGEST_DELAY = 10.0, 300.0
# After these the old RayCluster is of no use, whatever its pods say.
_CLUSTER_AT_FAULT = {"StartupDeadline", "ClusterDeleted", "NodeLost"}


def begin(snapshot: Snapshot, now: datetime) -> Verdict:
    last = snapshot.last_attempt
    wait = _time_to_wait(snapshot, now)
    if wait > 0 and last is not None:
        return Verdict(
            phase="Recovering",
            reason="BackingOff",
            message=f"Attempt {last.number} failed: {last.message or last.reason} The next one begins in {wait:.0f} s.",
            again=wait,
        )
    number = last.number + 1 if last is not None else 1
    kept = cluster_to_keep(snapshot)
    queued = bool(kept and kept.suspended)
    attempt = AttemptStatus(
        number=number,
        cluster=kept.name if kept else cluster_name(snapshot.job.metadata.name, number),
        split=split_name(snapshot.plan),
        started_at=None if queued else now,
        outcome="Running",
    )
    objects = desired_objects(snapshot.job, snapshot.plan, attempt=number)
    # Made before a crash kept us from writing it down: it is not touched again, others may own parts of it by now. What was to
    # be made beside it may be missing.
    there = any(c.name == attempt.cluster for c in snapshot.clusters)
    wanted = tuple(o for o in objects if not (there and o["kind"] == "RayCluster"))
    again_after = last is not None and last.outcome == "Failed"
    return Verdict(
        phase="Recovering" if again_after else "Provisioning",
        reason="AttemptBegins",
        message=f"Attempt {number} begins on " + (f"the RayCluster {kept.name}." if kept else "a new RayCluster."),
        actions=() if kept else (Apply(wanted),),
        attempt=attempt,
        again=1.0,
    )


def cluster_to_keep(snapshot: Snapshot) -> ClusterView | None:
    """The last attempt's RayCluster, where the next one may go on with it."""
    last, restart = snapshot.last_attempt, snapshot.job.spec.run_policy.restart
    found = next((c for c in snapshot.clusters if last is not None and c.name == last.cluster and not c.deleting), None)
    if last is None or found is None or last.outcome == "Suspended":
        return None
    if last.split is not None and last.split != split_name(snapshot.plan):
        return None  # its pools are of another size
    if last.outcome == "Preempted" or restart == "Job":
        return found
    usable = restart == "Auto" and last.reason not in _CLUSTER_AT_FAULT and not any(p.stuck for p in snapshot.pods)
    return found if usable else None


def _time_to_wait(snapshot: Snapshot, now: datetime) -> float:
    """Longer after each failure, so that a job that can't work does not keep a cluster busy with trying."""
    last, failures = snapshot.last_attempt, snapshot.status.failures or 0
    if last is None or last.outcome != "Failed" or last.finished_at is None:
        return 0.0
    delay = min(FIRST_DELAY * 2 ** max(failures - 1, 0), LONGEST_DELAY)
    return (last.finished_at + timedelta(seconds=delay) - now).total_seconds()
