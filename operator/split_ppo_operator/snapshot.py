"""What was seen of a job at one moment. Frozen: decisions are made on this and on nothing else."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.api.status import AttemptStatus, SplitPPOJobStatus
from split_ppo.placement.plan import PlacementPlan

HEAD = "head"


@dataclass(frozen=True)
class PodView:
    """A pod of the current RayCluster; `pool` is the pool's name or `head`."""

    name: str
    uid: str
    pool: str
    ip: str | None
    node: str | None
    ready: bool
    deleting: bool
    restarts: int
    reason: str | None = None
    message: str | None = None
    # The pod can't become ready again by itself: its node is lost, or it has been asked to go and can't.
    stuck: bool = False


@dataclass(frozen=True)
class ClusterView:
    """A RayCluster of this job."""

    name: str
    uid: str
    suspended: bool
    deleting: bool
    # Why it makes no pods, in KubeRay's words, or why it waits, in Kueue's.
    problem: tuple[str, str] | None = None
    # Replicas of each group as they are asked for now, whoever asked.
    replicas: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class SubmissionView:
    """What Ray says of a submission; status None when it knows of none."""

    id: str
    status: str | None
    message: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Snapshot:
    job: SplitPPOJob
    plan: PlacementPlan
    clusters: tuple[ClusterView, ...] = ()
    pods: tuple[PodView, ...] = ()
    submission: SubmissionView | None = None
    # Addresses of the nodes that Ray counts as alive; None when it was not asked or did not answer.
    ray_nodes: frozenset[str] | None = None
    # What kept Ray from answering, as a sentence.
    blind: str | None = None
    # What keeps us from seeing the job's objects at all, as reason and sentence.
    hindrance: tuple[str, str] | None = None
    raw_status: dict[str, Any] = field(default_factory=dict)
    created: datetime | None = None

    @property
    def status(self) -> SplitPPOJobStatus:
        return self.job.status or SplitPPOJobStatus()

    @property
    def attempt(self) -> AttemptStatus | None:
        """The attempt that is under way."""
        last = self.last_attempt
        return last if last is not None and last.outcome == "Running" else None

    @property
    def last_attempt(self) -> AttemptStatus | None:
        return max(self.status.attempts or (), key=lambda a: a.number, default=None)

    @property
    def cluster(self) -> ClusterView | None:
        """The RayCluster of the attempt that is under way."""
        attempt = self.attempt
        return next((c for c in self.clusters if attempt is not None and c.name == attempt.cluster), None)

    @property
    def head(self) -> PodView | None:
        return next((p for p in self.pods if p.pool == HEAD and not p.deleting), None)

    def phase_since(self, condition: str) -> datetime | None:
        found = next((c for c in self.status.conditions or () if c.type == condition), None)
        return found.last_transition_time if found else None


def head_identity(pod: PodView) -> str:
    return f"{pod.uid}/{pod.restarts}"
