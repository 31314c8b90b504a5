"""What can't be seen can't be decided on: the job stays where it is, and says why."""

from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict


def wait_for_sight(snapshot: Snapshot, hindrance: tuple[str, str]) -> Verdict:
    reason, message = hindrance
    return Verdict(phase=snapshot.status.phase or "Pending", reason=reason, message=message, again=30.0)
