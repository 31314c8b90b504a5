"""`status`: what the operator and the trainer have seen. Each field has one writer."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from split_ppo.api.base import ApiModel, list_map

Phase = Literal["Pending", "Provisioning", "Starting", "Running", "Recovering", "Suspended", "Succeeded", "Failed"]
Text = Annotated[str, Field(max_length=32768)]
# The operator reads these back, and the trainer's token may write them too: they can be names and nothing else.
ClusterName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
SubmissionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$", max_length=128)]


class Condition(ApiModel):
    """A condition as everywhere in Kubernetes."""

    type: Annotated[str, Field(max_length=316)]
    """Accepted, PoolsReady, TrainingRunning, Suspended, Succeeded, Failed, Reconciling or Stalled."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """One word for programs."""
    message: Text
    """A sentence for people."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec it speaks of."""
    last_transition_time: datetime
    """When the status last changed."""


class AttemptStatus(ApiModel):
    """One try at the training."""

    number: Annotated[int, Field(ge=1)]
    """Counts from 1."""
    cluster: ClusterName | None = None
    """RayCluster it ran on."""
    submission_id: SubmissionId | None = None
    """Ray's id of the submission; set once it was handed over."""
    head: str | None = None
    """The head pod it was handed to, as uid/restarts: a head that is another one has forgotten it."""
    started_at: datetime | None = None
    """When it began."""
    finished_at: datetime | None = None
    """When it ended."""
    split: str | None = None
    """The split it runs on, such as `actor 6 + critic 2`."""
    outcome: Literal["Running", "Succeeded", "Failed", "Suspended", "Preempted", "Moved"] = "Running"
    """How it ended. Only Failed counts against backoffLimit."""
    reason: str | None = None
    """Why, in one word."""
    message: Text | None = None
    """Why."""


class RayClusterStatus(ApiModel):
    """The RayCluster of the current attempt."""

    name: ClusterName
    """Its name."""
    dashboard: str | None = None
    """Service and port of Ray's dashboard."""


class PoolStatus(ApiModel):
    """A pool as it is."""

    name: str
    """Name of the pool."""
    gpus: Annotated[int, Field(ge=0)]
    """GPUs in all."""
    desired: Annotated[int, Field(ge=0)]
    """Pods wanted."""
    ready: Annotated[int, Field(ge=0)]
    """Pods ready."""
    reason: str | None = None
    """What keeps the worst pod from being ready, in one word."""
    message: Text | None = None
    """The same in a sentence."""


class TrainingStatus(ApiModel):
    """Progress, written by the trainer itself."""

    step: Annotated[int, Field(ge=0)] | None = None
    """Steps done."""
    total_steps: Annotated[int, Field(ge=0)] | None = None
    """Steps in all."""
    progress: str | None = None
    """Both, for the table: `12/100`."""
    eta: datetime | None = None
    """When it will be done at this pace."""
    reward: float | None = None
    """Mean reward of the last step."""
    phase_seconds: dict[str, float] | None = None
    """Seconds of each piece of the last step, by verl's names."""
    overlap_efficiency: float | None = None
    """Shortest possible step with these pieces ÷ measured step."""
    checkpoint: str | None = None
    """Newest complete checkpoint."""
    updated_at: datetime | None = None
    """When this was written."""


class SplitPrediction(ApiModel):
    """What a split would cost."""

    split: str
    """The split, such as `actor 6 + critic 2` or `Colocated 8`."""
    step_seconds: float
    """Predicted seconds per step."""


class Recommendation(ApiModel):
    """Measured advice on the split."""

    best: str | None = None
    """The best split found."""
    gain_percent: float | None = None
    """Percent of the step's time that it would save; 0 where that is less than balance.minGainPercent."""
    message: Text | None = None
    """The advice in a sentence, with how sure it is."""
    predictions: Annotated[list[SplitPrediction], Field(max_length=64)] | None = None
    """The splits looked at, best first."""


class BalanceStatus(ApiModel):
    """Where `balance.mode: Apply` has moved the run."""

    asked: str
    """The split that the spec asked for. Once it asks for another one, all of this is forgotten."""
    split: str
    """The split that the next attempt is placed on."""
    tried: dict[str, float]
    """Measured seconds per step of each split that the run has left."""
    settled: bool = False
    """The run stays where it is, for good."""


class SplitPPOJobStatus(ApiModel):
    """What has happened so far."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the spec that was last acted on."""
    phase: Phase | None = None
    """Where the job stands, in one word."""
    reason: str | None = None
    """Why it stands there, in one word."""
    message: Text | None = None
    """The same in a sentence."""
    conditions: Annotated[list[Condition], Field(max_length=32, json_schema_extra=list_map("type"))] | None = None
    """The same in detail."""
    attempt: Annotated[int, Field(ge=0)] | None = None
    """Number of the current attempt."""
    failures: Annotated[int, Field(ge=0)] | None = None
    """Failed attempts so far; compared with backoffLimit."""
    attempts: Annotated[list[AttemptStatus], Field(max_length=64, json_schema_extra=list_map("number"))] | None = None
    """The last few attempts."""
    ray_cluster: RayClusterStatus | None = None
    """The RayCluster of the current attempt."""
    pools: Annotated[list[PoolStatus], Field(max_length=8, json_schema_extra=list_map("name"))] | None = None
    """The pools of the current attempt."""
    pool_summary: str | None = None
    """The pools in one line, for the table: `actor 2/2, critic 1/2`."""
    started_at: datetime | None = None
    """When the first attempt began."""
    active_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long earlier attempts ran, together; compared with activeDeadlineSeconds."""
    finished_at: datetime | None = None
    """When the job ended."""
    training: TrainingStatus | None = None
    """Progress, written by the trainer."""
    recommendation: Recommendation | None = None
    """Measured advice on the split."""
    balance: BalanceStatus | None = None
    """Where `balance.mode: Apply` has moved the run, written by the trainer."""
