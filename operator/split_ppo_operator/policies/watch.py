"""Following a submission: running, done, failed, or forgotten by a head that was restarted behind our back."""

from datetime import datetime

from split_ppo_operator.actions import Stop
from split_ppo_operator.moves import MOVED
from split_ppo_operator.policies.deadline import seconds_left
from split_ppo_operator.policies.failure import active_seconds, cluster_deleted, ended, fail_attempt
from split_ppo_operator.policies.patience import look_again, seconds_since
from split_ppo_operator.pools import readiness
from split_ppo_operator.snapshot import Snapshot, head_identity
from split_ppo_operator.submission import BAD_INPUT, end_reason, last_line, last_words
from split_ppo_operator.verdict import Verdict

# The trainer ends by itself when a worker dies; one that has not after this long hangs, and is ended for it.
LOST_PODS_SECONDS = 90.0


def watch(snapshot: Snapshot, now: datetime) -> Verdict:
    attempt, cluster = snapshot.attempt, snapshot.cluster
    assert attempt is not None
    if cluster is None or cluster.deleting:
        return cluster_deleted(snapshot, now)
    head = snapshot.head
    if head is not None and attempt.head is not None and head_identity(head) != attempt.head:
        message = "Ray's head was restarted and does not know the training any more."
        return fail_attempt(snapshot, now, reason="HeadRestarted", message=message)
    found = snapshot.submission
    if found is None:
        return _unseen(snapshot, now)
    if found.status is None:
        message = "Ray does not know the submission any more: its head was restarted."
        return fail_attempt(snapshot, now, reason="HeadRestarted", message=message)
    match found.status:
        case "SUCCEEDED":
            return Verdict(
                phase="Succeeded",
                reason="TrainingSucceeded",
                message="The training is done.",
                attempt=ended(attempt, now, "Succeeded", "TrainingSucceeded", "The training is done."),
                active_seconds=active_seconds(snapshot, now),
                finished_at=now,
                again=0.0,
            )
        case "FAILED" if found.exit_code == MOVED and _decided_to_move(snapshot):
            message = last_line(found.message).removeprefix("Moved: ")
            return Verdict(
                phase="Provisioning",
                reason="Moved",
                message=message,
                attempt=ended(attempt, now, "Moved", "Moved", message),
                active_seconds=active_seconds(snapshot, now),
                again=0.0,
            )
        case "FAILED":
            return fail_attempt(
                snapshot,
                now,
                reason=end_reason(found.message, found.exit_code),
                message=last_words(found.message, found.exit_code),
                retry=found.exit_code != BAD_INPUT,
            )
        case "STOPPED":
            return fail_attempt(snapshot, now, reason="Stopped", message="The submission was stopped by somebody else.")
    return _under_way(snapshot, now)


def _decided_to_move(snapshot: Snapshot) -> bool:
    """Whether the status names another split; a trainer that could not write it down goes on where it was, as after a failure."""
    attempt, balance = snapshot.attempt, snapshot.status.balance
    return attempt is not None and balance is not None and balance.split != attempt.split


def _under_way(snapshot: Snapshot, now: datetime) -> Verdict:
    ready, running = readiness(snapshot), snapshot.submission is not None and snapshot.submission.status == "RUNNING"
    lost_for = _lost_for(snapshot, now)
    if not ready.complete and lost_for >= LOST_PODS_SECONDS:
        attempt = snapshot.attempt
        assert attempt is not None
        assert attempt.cluster is not None
        assert attempt.submission_id is not None
        stuck = any(p.stuck for p in snapshot.pods)
        return fail_attempt(
            snapshot,
            now,
            reason="NodeLost" if stuck else "PodLost",
            message=f"A part of the pools has been gone for {lost_for:.0f} s: {ready.message}",
            actions=(Stop(attempt.cluster, attempt.submission_id),),
        )
    left = seconds_left(snapshot, now)
    # An end is seen by asking alone. Who has run for an hour can wait a few seconds more for it to be noticed.
    again = look_again(seconds_since(snapshot, "TrainingRunning", now) / 6.0, least=5.0, most=15.0)
    again = again if left is None else min(again, left)
    if not ready.complete:
        return Verdict(
            phase="Running" if running else "Starting", reason=ready.reason, message=ready.message, again=again
        )
    if running:
        return Verdict(phase="Running", reason="Training", message="The training runs.", again=again)
    return Verdict(phase="Starting", reason="DriverStarting", message="Ray is starting the training.", again=again)


def _unseen(snapshot: Snapshot, now: datetime) -> Verdict:
    """Ray did not answer. Without a head that is a loss; with one it may be busy."""
    ready, lost_for = readiness(snapshot), _lost_for(snapshot, now)
    if lost_for >= LOST_PODS_SECONDS:
        reason = "NodeLost" if any(p.stuck for p in snapshot.pods) else "PodLost"
        return fail_attempt(snapshot, now, reason=reason, message=f"Ray does not answer: {ready.message}")
    phase = snapshot.status.phase if snapshot.status.phase in ("Running", "Starting") else "Starting"
    message = snapshot.blind or "Ray's dashboard does not answer."
    return Verdict(phase=phase or "Starting", reason="RayNotAnswering", message=message, again=5.0)


def _lost_for(snapshot: Snapshot, now: datetime) -> float:
    """Seconds since the pools stopped being complete, by the condition that remembers it."""
    if readiness(snapshot).complete:
        return 0.0
    since = snapshot.phase_since("PoolsReady")
    known_lost = any(c.type == "PoolsReady" and c.status == "False" for c in snapshot.status.conditions or ())
    return (now - since).total_seconds() if since is not None and known_lost else 0.0
