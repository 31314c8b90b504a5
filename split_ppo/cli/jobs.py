"""SplitPPOJobs of a namespace: finding them, and saying which one was meant when there is none of that name."""

from dataclasses import dataclass
from datetime import UTC, datetime

from split_ppo.api.job import SplitPPOJob, parse_job
from split_ppo.api.status import AttemptStatus, SplitPPOJobStatus
from split_ppo.cli.api_server import FIELD_MANAGER, ApiServer, Object
from split_ppo.cli.refusals import ClusterError, unknown

FINISHED = ("Succeeded", "Failed")
# An operator that is there answers within a second or two.
UNNOTICED_SECONDS = 15


@dataclass(frozen=True)
class JobOnCluster:
    """A job as the API server has it."""

    raw: Object
    job: SplitPPOJob

    @classmethod
    def read(cls, raw: Object) -> "JobOnCluster":
        return cls(raw, parse_job(raw))

    @property
    def name(self) -> str:
        return self.job.metadata.name

    @property
    def status(self) -> SplitPPOJobStatus:
        return self.job.status or SplitPPOJobStatus()

    @property
    def phase(self) -> str:
        """The operator's word; Pending also before it has looked."""
        return self.status.phase or "Pending"

    @property
    def finished(self) -> bool:
        return self.status.phase in FINISHED

    @property
    def attempt(self) -> AttemptStatus | None:
        return max(self.status.attempts or (), key=lambda a: a.number, default=None)

    @property
    def created(self) -> datetime:
        return datetime.fromisoformat(self.raw["metadata"]["creationTimestamp"]).astimezone(UTC)

    def unnoticed(self, now: datetime) -> bool:
        """Nobody has looked at the job, or at its newest spec, for longer than an operator takes."""
        if (self.status.observed_generation or 0) >= (self.job.metadata.generation or 0):
            return False
        # When a spec was changed is not recorded; a new job's age is.
        return bool(self.status.phase is None and (now - self.created).total_seconds() > UNNOTICED_SECONDS)


def get_job(server: ApiServer, name: str) -> JobOnCluster:
    try:
        return JobOnCluster.read(server.get(server.jobs_path(name)))
    except ClusterError as error:
        # Without a word about an object it is the resource itself that the cluster does not know.
        if error.status != 404 or "knows no SplitPPOJobs" in str(error):
            raise
    raise ClusterError(
        unknown("SplitPPOJob", name, _names(server), where=f" in namespace {server.namespace}"), status=404
    )


def list_jobs(server: ApiServer, *, labels: str = "", all_namespaces: bool = False) -> list[JobOnCluster]:
    query = {"labelSelector": labels} if labels else None
    found = server.get(server.jobs_path(all_namespaces=all_namespaces), query=query)["items"]
    return [JobOnCluster.read(item) for item in found]


def patch_job(server: ApiServer, name: str, change: Object) -> JobOnCluster:
    path, kind = server.jobs_path(name), "application/merge-patch+json"
    return JobOnCluster.read(
        server.json("PATCH", path, change, query={"fieldManager": FIELD_MANAGER}, content_type=kind)
    )


def _names(server: ApiServer) -> list[str]:
    try:
        return [job.name for job in list_jobs(server)]
    except ClusterError:
        return []  # may get but not list: no hint then
