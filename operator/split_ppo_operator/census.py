"""Which jobs there are, by phase: for the metrics alone, decisions never look at it."""

from collections.abc import Iterable, Mapping
from typing import Any

from split_ppo_operator.reconcile import Key


class Census:
    def __init__(self) -> None:
        self._phases: dict[Key, str] = {}

    def see(self, job: Mapping[str, Any]) -> None:
        self._phases[_key(job)] = job.get("status", {}).get("phase") or "Pending"

    def forget(self, job: Mapping[str, Any]) -> None:
        self._phases.pop(_key(job), None)

    def replace(self, counted: "Census") -> None:
        """All there are: what was deleted while nobody watched is not among them."""
        self._phases = counted._phases

    def jobs(self) -> Iterable[Key]:
        return self._phases.keys()

    def phases(self) -> Iterable[str]:
        return self._phases.values()


def _key(job: Mapping[str, Any]) -> Key:
    return Key(job["metadata"]["namespace"], job["metadata"]["name"])
