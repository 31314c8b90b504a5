"""From a verdict to the status that is written: conditions, attempts, pools. Pure.

A condition's time moves only when its status flips. The result holds the operator's fields alone; `training` and what it
learnt of the split are the trainer's, and server-side apply keeps the two apart.
"""

from datetime import UTC, datetime
from typing import Any

from split_ppo.api.status import AttemptStatus, Condition
from split_ppo_operator.pools import pool_statuses, pool_summary, readiness
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict

Object = dict[str, Any]
KEPT_ATTEMPTS = 10
OWNED_BY_TRAINER = ("training", "recommendation", "balance")


def build_status(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Object:
    """The operator's part of the status."""
    old = snapshot.status
    attempts = _attempts(old.attempts or [], verdict.attempt)
    current = max(attempts, key=lambda a: a.number, default=None)
    status: Object = {
        "observedGeneration": snapshot.job.metadata.generation,
        "phase": verdict.phase,
        "reason": verdict.reason,
        "message": verdict.message,
        "conditions": [_dump(c) for c in _conditions(snapshot, verdict, now)],
        "attempt": current.number if current else 0,
        "failures": verdict.failures if verdict.failures is not None else old.failures or 0,
        "activeSeconds": verdict.active_seconds if verdict.active_seconds is not None else old.active_seconds or 0,
        "attempts": [_dump(a) for a in attempts],
        "startedAt": _time(old.started_at or next((a.started_at for a in attempts if a.started_at), None)),
        "finishedAt": _time(verdict.finished_at or old.finished_at),
    }
    if current is not None and current.cluster and verdict.phase not in ("Suspended",):
        status["rayCluster"] = {"name": current.cluster, "dashboard": f"{current.cluster}-head-svc:8265"}
    if snapshot.plan.pools and verdict.accepted:
        pools = pool_statuses(snapshot)
        status["pools"] = [_dump(p) for p in pools]
        status["poolSummary"] = pool_summary(pools)
    return {k: v for k, v in status.items() if v is not None}


def owned_part(raw: Object) -> Object:
    return {k: v for k, v in raw.items() if k not in OWNED_BY_TRAINER}


def _attempts(known: list[AttemptStatus], new: AttemptStatus | None) -> list[AttemptStatus]:
    by_number = {a.number: a for a in known}
    if new is not None:
        by_number[new.number] = new
    return [by_number[n] for n in sorted(by_number)][-KEPT_ATTEMPTS:]


def _conditions(snapshot: Snapshot, verdict: Verdict, now: datetime) -> list[Condition]:
    phase, reason, message = verdict.phase, verdict.reason, verdict.message
    in_progress = verdict.accepted and phase in ("Pending", "Provisioning", "Starting", "Recovering")

    def when(holds: bool, otherwise: str) -> tuple[bool, str, str]:
        return (True, reason, message) if holds else (False, otherwise, "")

    wanted: dict[str, tuple[bool, str, str]] = {
        "Accepted": (True, "Accepted", "The spec is sound.") if verdict.accepted else (False, reason, message),
        "PoolsReady": _pools_ready(snapshot, verdict),
        "TrainingRunning": (phase == "Running", reason, message),
        "Suspended": when(phase == "Suspended", "NotSuspended"),
        "Succeeded": when(phase == "Succeeded", "NotSucceeded"),
        "Failed": when(phase == "Failed", "NotFailed"),
        # kstatus: what Flux, Argo CD and `kubectl wait` understand.
        "Reconciling": when(in_progress, "Settled"),
        "Stalled": when(phase == "Failed" or not verdict.accepted, "NotStalled"),
    }
    known = {c.type: c for c in snapshot.status.conditions or []}
    return [
        Condition(
            type=kind,
            status="True" if holds else "False",
            reason=why,
            message=text,
            observed_generation=snapshot.job.metadata.generation,
            last_transition_time=_since(known.get(kind), "True" if holds else "False", now),
        )
        for kind, (holds, why, text) in wanted.items()
    ]


def _pools_ready(snapshot: Snapshot, verdict: Verdict) -> tuple[bool, str, str]:
    ready = readiness(snapshot)
    if not ready.complete and (not verdict.accepted or verdict.phase in ("Suspended", "Succeeded", "Failed")):
        return False, "NotNeeded", "The job needs no pods now."
    return ready.complete, ready.reason, ready.message


def _since(known: Condition | None, status: str, now: datetime) -> datetime:
    return known.last_transition_time if known is not None and known.status == status else now.replace(microsecond=0)


def _dump(model: Any) -> Object:
    found: Object = model.model_dump(by_alias=True, exclude_none=True)
    return {k: _time(v) if isinstance(v, datetime) else v for k, v in found.items()}


def _time(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment is not None else None
