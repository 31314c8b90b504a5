from typing import Any

import pytest

from builders import job_document
from split_ppo_operator import newborn
from split_ppo_operator.newborn import Newborn
from split_ppo_operator.reconcile import Key

KEY = Key("team", "job")


def test_a_job_just_created_is_known_once() -> None:
    jobs, document = Newborn(), job_document(namespace="team")
    jobs.see(KEY, "ADDED", document)
    assert jobs.take(KEY) == document
    assert jobs.take(KEY) is None


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (None, {}),
        ("MODIFIED", {}),
        ("DELETED", {}),
        ("ADDED", {"status": {"phase": "Pending"}}),
        ("ADDED", {"metadata": {"name": "job", "deletionTimestamp": "2030-01-01T00:00:00Z"}}),
    ],
)
def test_whatever_else_happens_everything_is_read_anew(kind: str | None, more: dict[str, Any]) -> None:
    jobs = Newborn()
    jobs.see(KEY, "ADDED", job_document(namespace="team"))
    jobs.see(KEY, kind, job_document(namespace="team") | more)
    assert jobs.take(KEY) is None


def test_what_had_to_wait_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Newborn()
    jobs.see(KEY, "ADDED", job_document(namespace="team"))
    monkeypatch.setattr(newborn, "MOMENT", 0.0)
    assert jobs.take(KEY) is None
