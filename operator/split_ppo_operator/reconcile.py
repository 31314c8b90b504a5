"""One look at one job: observe, plan, act, write the status once, and say when to look again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from split_ppo.api import API_VERSION, KIND
from split_ppo_operator.act import act
from split_ppo_operator.cluster import EVENTS, JOBS, ApiError, Cluster
from split_ppo_operator.observe import observe
from split_ppo_operator.plan import plan
from split_ppo_operator.ray_api import RayNotAnswering
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.status import build_status, owned_part
from split_ppo_operator.verdict import Verdict

Object = dict[str, Any]
log = logging.getLogger("split_ppo.reconcile")


@dataclass(frozen=True)
class Key:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


async def reconcile(
    cluster: Cluster,
    key: Key,
    clock: Callable[[], datetime],
    on_change: Callable[[Snapshot, Verdict, datetime], None] = lambda snapshot, verdict, now: None,
    allowed: frozenset[str] = frozenset(),
    newborn: Object | None = None,
) -> float | None:
    """Bring the job one step on; returns the seconds after which to look again, None for whenever something happens.

    `on_change` hears of every status that was written; `allowed` is what the platform lets podTemplates do;
    `newborn` is the job itself if it was created a moment ago.
    """
    try:
        snapshot = await observe(cluster, key.namespace, key.name, allowed=allowed, newborn=newborn)
    except ValidationError as error:
        log.error("the job can't be read, which the CRD should have prevented: %s", error)
        return None
    if snapshot is None:
        return None
    now = clock()
    verdict = plan(snapshot, now)
    try:
        await act(cluster, key.namespace, key.name, verdict.actions)
    except (ApiError, RayNotAnswering) as error:
        verdict = _hindered(snapshot, verdict, error)
    if await _write(cluster, key, snapshot, verdict, now):
        on_change(snapshot, verdict, now)
        await _tell(cluster, key, snapshot, verdict, now)
    return verdict.again


def _hindered(snapshot: Snapshot, verdict: Verdict, error: ApiError | RayNotAnswering) -> Verdict:
    """What could not be done is not remembered as done; the user hears why, and it is tried again."""
    text = error.message if isinstance(error, ApiError) else str(error)
    # What the API server refuses for good it would refuse again: the spec has to change, or the operator's rights.
    for_good = isinstance(error, ApiError) and not error.transient
    forbidden = for_good and isinstance(error, ApiError) and error.status == 403
    after = error.retry_after if isinstance(error, ApiError) and error.retry_after else 5.0
    phase = snapshot.status.phase or "Pending"
    return replace(
        verdict,
        phase=phase,
        reason="Forbidden" if forbidden else "ActionFailed",
        message=f"Not allowed: {text}" if forbidden else f"Could not go on, trying again: {text}",
        actions=(),
        attempt=None,
        failures=None,
        active_seconds=None,
        finished_at=None,
        again=60.0 if for_good else after,
    )


async def _write(cluster: Cluster, key: Key, snapshot: Snapshot, verdict: Verdict, now: datetime) -> bool:
    """The one status write, and only if something changed."""
    status = build_status(snapshot, verdict, now)
    if status == owned_part(snapshot.raw_status):
        return False
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        # With the uid: a job that was deleted and made anew meanwhile is another one.
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": snapshot.job.metadata.uid},
        "status": status,
    }
    try:
        await cluster.apply_status(JOBS, manifest)
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


async def _tell(cluster: Cluster, key: Key, snapshot: Snapshot, verdict: Verdict, now: datetime) -> None:
    """An Event on transitions only, and only after the status says the same."""
    old = snapshot.status
    if (old.phase, old.reason) == (verdict.phase, verdict.reason):
        return
    log.info("%s: %s", verdict.reason, verdict.message, extra={"phase": verdict.phase})
    warning = (
        verdict.phase in ("Failed", "Recovering")
        or not verdict.accepted
        or verdict.reason in ("Forbidden", "ActionFailed")
    )
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    event: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{key.name}-"},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": key.name,
            "namespace": key.namespace,
            "uid": snapshot.job.metadata.uid,
        },
        "type": "Warning" if warning else "Normal",
        "reason": verdict.reason,
        "message": verdict.message[:1000],
        "source": {"component": "split-ppo"},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    try:
        await cluster.create(EVENTS, event, namespace=key.namespace)
    except ApiError as error:
        log.warning("no Event could be written: %s", error.message)
