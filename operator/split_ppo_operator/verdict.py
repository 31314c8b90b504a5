"""What was decided: where the job stands, why, what to do about it, and what to remember."""

from dataclasses import dataclass
from datetime import datetime

from split_ppo.api.status import AttemptStatus, Phase
from split_ppo_operator.actions import Action


@dataclass(frozen=True)
class Verdict:
    phase: Phase
    reason: str
    message: str
    actions: tuple[Action, ...] = ()
    # The attempt as it is to be remembered; None leaves what is remembered.
    attempt: AttemptStatus | None = None
    # Failed attempts and seconds of earlier attempts, where they changed.
    failures: int | None = None
    active_seconds: int | None = None
    finished_at: datetime | None = None
    accepted: bool = True
    # Look again after so many seconds, even if nothing happens.
    again: float | None = None


FINISHED: tuple[Phase, ...] = ("Succeeded", "Failed")
