"""`suspend: true`: every GPU is given back, the checkpoint stays, and resuming goes on from it with a new attempt."""

from dataclasses import replace
from datetime import datetime

from split_ppo_operator.actions import Action, Stop
from split_ppo_operator.policies.failure import active_seconds, ended
from split_ppo_operator.policies.stale import delete_all_clusters
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict


def suspend(snapshot: Snapshot, now: datetime) -> Verdict:
    attempt, actions = snapshot.attempt, list[Action]()
    if attempt is not None and attempt.submission_id and attempt.cluster and snapshot.cluster is not None:
        actions.append(Stop(attempt.cluster, attempt.submission_id))
    actions.extend(delete_all_clusters(snapshot))
    left = len(snapshot.clusters) or len(snapshot.pods)
    if left:
        waiting = f"{len(snapshot.pods)} pods" if snapshot.pods else "the RayCluster"
        message = f"Suspending: waiting for {waiting} to go."
        verdict = Verdict(phase="Suspended", reason="Suspending", message=message, actions=tuple(actions), again=2.0)
    else:
        message = "Suspended; no GPU is held. Set suspend: false to go on from the last checkpoint."
        verdict = Verdict(phase="Suspended", reason="Suspended", message=message)
    if attempt is None:
        return verdict
    over = ended(attempt, now, "Suspended", "Suspended", "The job was suspended.")
    return replace(verdict, attempt=over, active_seconds=active_seconds(snapshot, now))
