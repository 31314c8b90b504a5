"""A failed attempt: it is remembered, counted, and followed by another one until there have been too many."""

from datetime import datetime
from typing import Literal

from split_ppo.api.status import AttemptStatus
from split_ppo_operator.actions import Action
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict

Outcome = Literal["Succeeded", "Failed", "Suspended", "Preempted", "Moved"]


def fail_attempt(
    snapshot: Snapshot,
    now: datetime,
    *,
    reason: str,
    message: str,
    retry: bool = True,
    actions: tuple[Action, ...] = (),
) -> Verdict:
    """The current attempt has failed for this reason."""
    attempt = snapshot.attempt
    assert attempt is not None
    policy, failures = snapshot.job.spec.run_policy, (snapshot.status.failures or 0) + 1
    over = ended(attempt, now, "Failed", reason, message)
    spent = active_seconds(snapshot, now)
    if retry and policy.restart != "Never" and failures <= policy.backoff_limit:
        return Verdict(
            phase="Recovering",
            reason=reason,
            message=f"Attempt {attempt.number} failed: {message}",
            actions=actions,
            attempt=over,
            failures=failures,
            active_seconds=spent,
            again=1.0,
        )
    if not retry:
        why = "Trying again would not help."
    elif policy.restart == "Never":
        why = "restart is Never."
    else:
        why = f"That was failure {failures}, and backoffLimit is {policy.backoff_limit}."
    return fail_job(
        snapshot, now, reason=reason, message=f"{message} {why}", attempt=over, failures=failures, actions=actions
    )


def cluster_deleted(snapshot: Snapshot, now: datetime) -> Verdict:
    attempt = snapshot.attempt
    assert attempt is not None
    message = f"The RayCluster {attempt.cluster} was deleted by somebody else."
    return fail_attempt(snapshot, now, reason="ClusterDeleted", message=message)


def fail_job(
    snapshot: Snapshot,
    now: datetime,
    *,
    reason: str,
    message: str,
    attempt: AttemptStatus | None = None,
    failures: int | None = None,
    actions: tuple[Action, ...] = (),
) -> Verdict:
    return Verdict(
        phase="Failed",
        reason=reason,
        message=message,
        actions=actions,
        attempt=attempt,
        failures=failures,
        active_seconds=active_seconds(snapshot, now),
        finished_at=now,
        again=0.0,
    )


def ended(attempt: AttemptStatus, now: datetime, outcome: Outcome, reason: str, message: str) -> AttemptStatus:
    return attempt.model_copy(update={"outcome": outcome, "finished_at": now, "reason": reason, "message": message})


def active_seconds(snapshot: Snapshot, now: datetime) -> int:
    """Seconds that attempts were under way, this one included."""
    attempt = snapshot.attempt
    running = (now - attempt.started_at).total_seconds() if attempt is not None and attempt.started_at else 0.0
    return (snapshot.status.active_seconds or 0) + max(int(running), 0)
