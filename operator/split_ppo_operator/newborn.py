"""Jobs created a moment ago, as the watch showed them: the first look at one need not ask for what it has just been told.

Only for jobs whose creation was seen live and that have no status: nobody has looked at them, so nothing has been made for them.
All later looks read everything anew.
"""

import time
from collections.abc import Mapping
from typing import Any

from split_ppo_operator.reconcile import Key

MOMENT = 2.0


class Newborn:
    def __init__(self) -> None:
        self._seen: dict[Key, tuple[float, dict[str, Any]]] = {}

    def see(self, key: Key, kind: str | None, job: Mapping[str, Any]) -> None:
        """An event: ADDED is a creation, None stands for what was there before we watched."""
        now = time.monotonic()
        # A replica that does not act takes none of them: they must not pile up.
        self._seen = {k: v for k, v in self._seen.items() if k != key and now - v[0] < MOMENT}
        if kind == "ADDED" and not job.get("status") and not job["metadata"].get("deletionTimestamp"):
            self._seen[key] = now, dict(job)

    def take(self, key: Key) -> dict[str, Any] | None:
        """The job if it is new; once, and not when it had to wait."""
        at, job = self._seen.pop(key, (0.0, None))
        return job if time.monotonic() - at < MOMENT else None
