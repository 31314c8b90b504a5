"""The rest of the spec: storage, retries, deadlines, queues, balance."""

from typing import Annotated, Literal

from pydantic import Field

from split_ppo.api.base import AbsolutePath, ApiModel, LabelValue, Name
from split_ppo.api.pods import VolumeClaim

Overlap = Literal["None", "Update", "Inference", "NextGeneration"]
GangScheduler = Literal["Volcano", "YuniKorn", "KAI", "SchedulerPlugins"]
Seconds = Annotated[int, Field(ge=0, le=315_360_000)]


class Checkpoints(ApiModel):
    """Where checkpoints go: a volume that every pod can write."""

    claim_name: Name | None = None
    """A PersistentVolumeClaim, ReadWriteMany. None: `path` lies on one of `volumes`."""
    path: AbsolutePath = "/checkpoints"
    """Where it is mounted. Each job writes into a folder of its own below it (its name and the start of its uid): one made
    again under an old name starts afresh. `split-ppo run` writes into its output folder instead."""


class Storage(ApiModel):
    """Checkpoints, and volumes with models and data."""

    checkpoints: Checkpoints | None = None
    """Where checkpoints go. None: the job can't resume, and every retry starts at step 0."""
    every_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """Steps between checkpoints; the last step has one too."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Checkpoints kept, newest first."""
    volumes: Annotated[list[VolumeClaim], Field(max_length=32)] = Field(default_factory=list)
    """Other claims to mount in every pod."""


class RunPolicy(ApiModel):
    """What happens when something fails, takes long, or ends."""

    backoff_limit: Annotated[int, Field(ge=0, le=1000)] = 3
    """Failed attempts after which the job has failed. Preemption and suspension do not count."""
    restart: Literal["Auto", "Job", "Cluster", "Never"] = "Auto"
    """How a failed attempt goes on. Job: on the same RayCluster. Cluster: on a new one. Auto: the same where its pods
    come back, else a new one. Never: the first failure is the last."""
    startup_deadline_seconds: Seconds | None = 1800
    """How long pools may take to become ready before the attempt counts as failed."""
    active_deadline_seconds: Seconds | None = None
    """How long the job may run in all, suspensions aside."""
    ttl_seconds_after_finished: Seconds | None = None
    """Delete the job this long after its end. None: never."""
    cleanup: Literal["Cluster", "Workers", "None"] = "Cluster"
    """What is deleted at the end. Cluster: everything. Workers: the pools, the head stays for its logs. None: nothing."""


class Scheduling(ApiModel):
    """Queues and gang scheduling."""

    queue_name: LabelValue | None = None
    """Queue of the gang scheduler named below, or of Kueue if none is named."""
    gang_scheduler: GangScheduler | None = None
    """Batch scheduler that KubeRay was started with. Head and pools are placed together or not at all."""
    priority_class_name: Name | None = None
    """PriorityClass of the pods; queues preempt by it too."""

    @property
    def kueue(self) -> bool:
        """Whether the queue is one of Kueue's."""
        return self.queue_name is not None and self.gang_scheduler is None


class Balance(ApiModel):
    """What to do with the measured advice on a better split."""

    mode: Literal["None", "Recommend", "Apply"] = "Recommend"
    """Recommend: say it in the status. Apply: move to it at a checkpoint, which on Kubernetes needs
    `placement.total` and `storage.checkpoints`. None: neither."""
    min_gain_percent: Annotated[int, Field(ge=1, le=100)] = 10
    """Predicted gain below which a split is left as it is."""
