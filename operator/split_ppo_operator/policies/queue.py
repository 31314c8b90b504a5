"""A RayCluster that Kueue holds back: waiting for admission is no failure, and neither is losing it."""

from datetime import datetime

from split_ppo.api.status import AttemptStatus
from split_ppo_operator.policies.failure import active_seconds, ended
from split_ppo_operator.policies.patience import look_again, seconds_since
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict


def wait_in_queue(snapshot: Snapshot, now: datetime) -> Verdict:
    again = look_again(seconds_since(snapshot, "PoolsReady", now), least=15.0, most=120.0)
    attempt = _not_started(snapshot)
    return Verdict(phase="Pending", reason="Queued", message=_why(snapshot), attempt=attempt, again=again)


def lost_admission(snapshot: Snapshot, now: datetime) -> Verdict:
    attempt = snapshot.attempt
    assert attempt is not None
    message = "The RayCluster was suspended from outside, as Kueue does to make room; the job goes on when it is admitted again."
    return Verdict(
        phase="Pending",
        reason="Preempted",
        message=message,
        attempt=ended(attempt, now, "Preempted", "Preempted", message),
        active_seconds=active_seconds(snapshot, now),
        again=1.0,
    )


def _why(snapshot: Snapshot) -> str:
    queue = snapshot.job.spec.scheduling.queue_name
    where = f"in the queue {queue}" if queue else "because its RayCluster is suspended"
    problem = snapshot.cluster.problem if snapshot.cluster is not None else None
    return f"Waiting {where}: {problem[1]}" if problem else f"Waiting {where}."


def _not_started(snapshot: Snapshot) -> AttemptStatus:
    attempt = snapshot.attempt
    assert attempt is not None
    return attempt.model_copy(update={"started_at": None})
