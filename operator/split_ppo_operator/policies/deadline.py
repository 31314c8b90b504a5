"""`activeDeadlineSeconds`: how long a job may be under way in all; suspensions and queues do not count."""

from datetime import datetime

from split_ppo_operator.actions import Stop
from split_ppo_operator.policies.failure import active_seconds, ended, fail_job
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.submission import submission_id
from split_ppo_operator.verdict import Verdict


def past_active_deadline(snapshot: Snapshot, now: datetime) -> Verdict | None:
    limit, attempt = snapshot.job.spec.run_policy.active_deadline_seconds, snapshot.attempt
    if limit is None or active_seconds(snapshot, now) < limit:
        return None
    message = f"The job has run for {active_seconds(snapshot, now)} s and activeDeadlineSeconds is {limit}."
    over = ended(attempt, now, "Failed", "ActiveDeadline", message) if attempt is not None else None
    cluster = snapshot.cluster
    stop = (
        (Stop(cluster.name, submission_id(snapshot.job, attempt.number)),)
        if attempt and cluster and attempt.submission_id
        else ()
    )
    return fail_job(snapshot, now, reason="ActiveDeadline", message=message, attempt=over, actions=stop)


def seconds_left(snapshot: Snapshot, now: datetime) -> float | None:
    limit = snapshot.job.spec.run_policy.active_deadline_seconds
    return None if limit is None else max(limit - active_seconds(snapshot, now), 0.0)
