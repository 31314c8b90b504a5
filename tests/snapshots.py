"""Builders for snapshots: a job at some moment of its life, as the operator would see it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from builders import job_document
from split_ppo.api.job import parse_job
from split_ppo.placement.checks import check_job
from split_ppo_operator.moves import with_moves
from split_ppo_operator.plan import plan
from split_ppo_operator.snapshot import HEAD, ClusterView, PodView, Snapshot, SubmissionView
from split_ppo_operator.status import OWNED_BY_TRAINER, build_status
from split_ppo_operator.verdict import Verdict

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def see(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **seen: Any) -> Snapshot:
    document = job_document(spec, uid="u", namespace="team", generation=1)
    document["status"] = status or {}
    job = parse_job(document)
    return Snapshot(job=job, plan=check_job(job), raw_status=status or {}, **seen)


def carry_on(snapshot: Snapshot, verdict: Verdict, now: datetime, **seen: Any) -> Snapshot:
    """The next look: the status as it was written, and what is seen then."""
    trainers = {key: value for key, value in snapshot.raw_status.items() if key in OWNED_BY_TRAINER}
    written = build_status(snapshot, verdict, now) | trainers
    return replace(with_status(snapshot, written), **seen)


def with_status(snapshot: Snapshot, status: dict[str, Any]) -> Snapshot:
    """The same with this status, read as the operator reads it."""
    document = snapshot.job.model_dump(by_alias=True, exclude={"status"}, exclude_none=True) | {"status": status}
    job, placement = with_moves(parse_job(document), check_job(snapshot.job))
    return replace(snapshot, job=job, plan=placement, raw_status=status)


def cluster(name: str = "job-1", **changes: Any) -> ClusterView:
    return replace(ClusterView(name=name, uid=f"uid-{name}", suspended=False, deleting=False), **changes)


def pod(pool: str, number: int = 0, *, ready: bool = True, **changes: Any) -> PodView:
    name = f"job-1-{pool}-{number}"
    base = PodView(
        name=name,
        uid=f"uid-{name}",
        pool=pool,
        ip=f"10.0.{len(pool)}.{number}",
        node="node-1",
        ready=ready,
        deleting=False,
        restarts=0,
        reason=None if ready else "Starting",
        message=None if ready else f"Pod {name} is being started.",
    )
    return replace(base, **changes)


def pods(**ready: bool) -> tuple[PodView, ...]:
    wanted = {HEAD: True, "actor": True, "critic": True} | ready
    return tuple(pod(pool, ready=is_ready) for pool, is_ready in wanted.items())


def ips(*views: PodView) -> frozenset[str]:
    return frozenset(p.ip for p in views if p.ip)


def submitted(status: str | None, **changes: Any) -> SubmissionView:
    return SubmissionView(id="u-1", status=status, **changes)


class Story:
    """A job followed from look to look; each step says what is seen and returns what was decided."""

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        self.snapshot, self.now = see(spec), NOW

    def look(self, *, after: float = 1.0, **seen: Any) -> Verdict:
        self.now += timedelta(seconds=after)
        blank = {"submission": None, "ray_nodes": None, "blind": None}
        self.snapshot = replace(self.snapshot, **{**blank, **seen})
        verdict = plan(self.snapshot, self.now)
        self.snapshot = carry_on(self.snapshot, verdict, self.now)
        return verdict

    def change(self, spec: dict[str, Any]) -> None:
        document = self.snapshot.job.model_dump(by_alias=True, exclude_none=True, mode="json")
        from split_ppo.verl_config import merge

        merge(document["spec"], spec)
        document["metadata"]["generation"] += 1
        job = parse_job(document)
        self.snapshot = replace(self.snapshot, job=job, plan=check_job(job))

    def trainer_says(self, status: dict[str, Any]) -> None:
        """The trainer writes its part of the status."""
        self.snapshot = with_status(self.snapshot, self.snapshot.raw_status | status)

    def run(self) -> Verdict:
        """As far as Running."""
        self.look()
        self.look(clusters=(cluster(),))
        everyone = pods()
        self.look(pods=everyone, ray_nodes=ips(*everyone), submission=submitted(None))
        return self.look(submission=submitted("RUNNING"))
