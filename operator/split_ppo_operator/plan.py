"""The decision. Pure: a snapshot and the time in, a verdict out; every policy it reads like a table of contents.

Invariants:
- Names are functions of job and attempt, so any action may be repeated after a crash.
- An attempt is remembered together with what it made; a submission is remembered with the head it was given to.
- Nothing is submitted before the head and every pool is ready and Ray itself counts them.
- A finished job never starts again and never holds GPUs that its cleanup policy gives back.
"""

from datetime import datetime

from split_ppo_operator.policies.acceptance import reject
from split_ppo_operator.policies.begin import begin
from split_ppo_operator.policies.deadline import past_active_deadline
from split_ppo_operator.policies.finish import finish
from split_ppo_operator.policies.hindrance import wait_for_sight
from split_ppo_operator.policies.provision import provision
from split_ppo_operator.policies.queue import lost_admission, wait_in_queue
from split_ppo_operator.policies.stale import with_stale_clusters_deleted
from split_ppo_operator.policies.suspend import suspend
from split_ppo_operator.policies.watch import watch
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import FINISHED, Verdict


def plan(snapshot: Snapshot, now: datetime) -> Verdict:
    if snapshot.status.phase in FINISHED:
        return finish(snapshot, now)
    if snapshot.hindrance is not None:
        return wait_for_sight(snapshot, snapshot.hindrance)
    if snapshot.plan.findings:
        return reject(snapshot, now)
    if snapshot.job.spec.suspend:
        return suspend(snapshot, now)
    overdue = past_active_deadline(snapshot, now)
    if overdue is not None:
        return overdue
    return with_stale_clusters_deleted(snapshot, _advance(snapshot, now))


def _advance(snapshot: Snapshot, now: datetime) -> Verdict:
    attempt, cluster = snapshot.attempt, snapshot.cluster
    if attempt is None:
        return begin(snapshot, now)
    if cluster is not None and cluster.suspended:
        return lost_admission(snapshot, now) if attempt.submission_id else wait_in_queue(snapshot, now)
    if attempt.submission_id is not None:
        return watch(snapshot, now)
    return provision(snapshot, now)
