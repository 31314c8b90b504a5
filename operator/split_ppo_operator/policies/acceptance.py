"""A job with findings is not started; correcting it is enough to go on."""

from dataclasses import replace
from datetime import datetime

from split_ppo_operator.policies.failure import ended
from split_ppo_operator.policies.stale import delete_all_clusters
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict


def reject(snapshot: Snapshot, now: datetime) -> Verdict:
    findings = snapshot.plan.findings
    message = " ".join(f.message for f in findings)
    verdict = Verdict(
        phase="Pending",
        reason=findings[0].reason,
        message=message if len(message) < 4000 else message[:4000] + "…",
        accepted=False,
        actions=delete_all_clusters(snapshot),
    )
    if snapshot.attempt is None:
        return verdict
    # The spec was changed under an attempt; it ends, and a corrected spec begins another.
    return replace(verdict, attempt=ended(snapshot.attempt, now, "Suspended", "NotAccepted", "The spec was changed."))
