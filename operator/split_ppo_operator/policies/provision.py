"""From a RayCluster to a submission: wait for the head and the pools, say what is missing, submit once all is there."""

from datetime import datetime

from split_ppo.api.status import AttemptStatus
from split_ppo_operator.actions import Apply, Submit
from split_ppo_operator.desired import cluster_name, desired_objects
from split_ppo_operator.policies.deadline import seconds_left
from split_ppo_operator.policies.failure import cluster_deleted, fail_attempt
from split_ppo_operator.policies.patience import look_again, seconds_since
from split_ppo_operator.pools import Readiness, readiness
from split_ppo_operator.snapshot import Snapshot, head_identity
from split_ppo_operator.submission import entrypoint, submission_id
from split_ppo_operator.verdict import Verdict

# How long pods of a RayCluster that was kept may take to come back before a new one is made instead.
RECOVERY_SECONDS = 180.0


def provision(snapshot: Snapshot, now: datetime) -> Verdict:
    attempt, cluster = snapshot.attempt, snapshot.cluster
    assert attempt is not None
    if cluster is None or cluster.deleting:
        return cluster_deleted(snapshot, now)
    if attempt.started_at is None:
        attempt = attempt.model_copy(update={"started_at": now})
    ready = readiness(snapshot)
    if ready.complete:
        return _submit(snapshot, attempt, now)
    waited = (now - attempt.started_at).total_seconds() if attempt.started_at else 0.0
    if _should_move(snapshot, attempt, waited):
        return _move(snapshot, attempt, ready)
    limit = snapshot.job.spec.run_policy.startup_deadline_seconds
    if limit is not None and waited >= limit:
        message = f"The pools were not ready within startupDeadlineSeconds, {limit}: {ready.message}"
        return fail_attempt(snapshot, now, reason="StartupDeadline", message=message)
    deadlines = [left for left in (seconds_left(snapshot, now), limit and limit - waited) if left is not None]
    return Verdict(
        phase="Provisioning" if attempt.number == 1 or not snapshot.status.failures else "Recovering",
        reason=ready.reason,
        message=ready.message,
        attempt=attempt,
        again=max(min([look_again(waited, least=15.0, most=120.0), *deadlines]), 1.0),
    )


def _submit(snapshot: Snapshot, attempt: AttemptStatus, now: datetime) -> Verdict:
    head = snapshot.head
    assert head is not None
    sid = submission_id(snapshot.job, attempt.number)
    handed_over = attempt.model_copy(update={"submission_id": sid, "head": head_identity(head)})
    if snapshot.submission is not None and snapshot.submission.status is not None:
        # We handed it over and crashed before we could write it down.
        return Verdict(
            phase="Starting",
            reason="Submitted",
            message="The training was handed to Ray.",
            attempt=handed_over,
            again=1.0,
        )
    unseen = _unseen(snapshot)
    if unseen is not None:
        again = look_again(seconds_since(snapshot, "PoolsReady", now), least=2.0, most=30.0)
        return Verdict(phase="Starting", reason="RayNotReady", message=unseen, attempt=attempt, again=again)
    assert attempt.cluster is not None
    submit = Submit(
        cluster=attempt.cluster,
        id=sid,
        entrypoint=entrypoint(snapshot.job, attempt.number),
        metadata={"job": snapshot.job.metadata.name, "attempt": str(attempt.number)},
    )
    return Verdict(
        phase="Starting",
        reason="Submitted",
        message="All pools are ready; the training was handed to Ray.",
        actions=(submit,),
        attempt=handed_over,
        again=2.0,
    )


def _unseen(snapshot: Snapshot) -> str | None:
    """Ready pods that Ray does not count: after a lost head, old workers look ready and belong to a dead one."""
    if snapshot.ray_nodes is None:
        return snapshot.blind or "All pools are ready; waiting for Ray's dashboard to answer."
    missing = [p.name for p in snapshot.pods if p.ready and p.ip not in snapshot.ray_nodes]
    return f"All pools are ready; Ray does not count {', '.join(missing)} yet." if missing else None


def _should_move(snapshot: Snapshot, attempt: AttemptStatus, waited: float) -> bool:
    """Whether a RayCluster kept from an earlier attempt is given up for a new one."""
    kept = attempt.cluster != cluster_name(snapshot.job.metadata.name, attempt.number)
    if not kept or snapshot.job.spec.run_policy.restart != "Auto" or snapshot.job.spec.scheduling.queue_name:
        return False
    return waited >= RECOVERY_SECONDS or any(p.stuck for p in snapshot.pods)


def _move(snapshot: Snapshot, attempt: AttemptStatus, ready: Readiness) -> Verdict:
    name = cluster_name(snapshot.job.metadata.name, attempt.number)
    there = any(c.name == name for c in snapshot.clusters)
    return Verdict(
        phase="Recovering",
        reason="NewCluster",
        message=f"The RayCluster {attempt.cluster} does not recover ({ready.message}); going on with {name}.",
        actions=() if there else (Apply(tuple(desired_objects(snapshot.job, snapshot.plan, attempt=attempt.number))),),
        attempt=attempt.model_copy(update={"cluster": name}),
        again=1.0,
    )
