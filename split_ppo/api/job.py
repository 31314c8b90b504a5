"""The whole resource."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from split_ppo import versions
from split_ppo.api.base import ApiModel, list_map, schema_extra
from split_ppo.api.placement_spec import Placement
from split_ppo.api.pods import EnvVar, LocalReference
from split_ppo.api.policy_spec import Balance, Overlap, RunPolicy, Scheduling, Storage
from split_ppo.api.status import SplitPPOJobStatus
from split_ppo.api.training_spec import Training


class SplitPPOJobSpec(ApiModel):
    """What to train, and on which GPUs."""

    suspend: bool = False
    """Stop the training, free every GPU and keep the checkpoint; false goes on from there."""
    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Image of every pod: Ray, verl and the trainer. Default: this release's, for the device asked for."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled. Default: Kubernetes' own rule."""
    image_pull_secrets: Annotated[list[LocalReference], Field(max_length=16, json_schema_extra=list_map("name"))] = (
        Field(default_factory=list)
    )
    """Secrets to pull the image with."""
    ray_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", max_length=32)] = versions.RAY
    """Ray's version in the image; the two must be the same."""
    placement: Placement
    """Which GPUs the actor gets, which the critic gets."""
    overlap: Overlap = "NextGeneration"
    """What of a step runs at the same time. None: one thing after the other. Update: both updates together. Inference: also
    values beside log-probabilities. NextGeneration: the critic's update also goes on behind the next generation. All give the
    same numbers."""
    training: Training
    """What to train."""
    storage: Storage = Field(default_factory=Storage)
    """Checkpoints, and volumes with models and data."""
    env: Annotated[list[EnvVar], Field(max_length=256, json_schema_extra=list_map("name"))] = Field(
        default_factory=list
    )
    """Environment of every pod."""
    run_policy: RunPolicy = Field(default_factory=RunPolicy)
    """What happens when something fails, takes long, or ends."""
    scheduling: Scheduling = Field(default_factory=Scheduling)
    """Queues and gang scheduling."""
    balance: Balance = Field(default_factory=Balance)
    """What to do with the measured advice on a better split."""


class Metadata(BaseModel):
    """Kubernetes' metadata; only what is used here is typed."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


# KubeRay keeps the first 50 characters of `<cluster>-<group>` in a pod's name. Ours are `<job>-<attempt>` and a pool's name:
# 50 less two dashes, four digits for the attempt and the six letters of `critic` or `reward`.
MAX_NAME = 50 - 2 - 4 - 6

_SETTLED = (
    "self.spec.suspend || oldSelf.spec.suspend || !has(oldSelf.status) || !has(oldSelf.status.phase)"
    " || oldSelf.status.phase in ['Pending', 'Succeeded', 'Failed']"
)


class SplitPPOJob(ApiModel):
    """PPO training with the actor on one pool of GPUs and the critic on another."""

    # At the root, where the status can be seen: a spec that was never accepted may be corrected at once.
    model_config = schema_extra(
        (
            f"size(self.metadata.name) <= {MAX_NAME} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            f"the name must start with a letter, hold only a-z, 0-9 and -, and have at most {MAX_NAME} characters: "
            "KubeRay cuts longer pod names and the pools would look alike",
        ),
        (
            f"{_SETTLED} || self.spec.placement == oldSelf.spec.placement",
            "placement can't change while the job runs: set suspend: true, then change it, then resume",
        ),
        (
            f"{_SETTLED} || self.spec.training.model == oldSelf.spec.training.model",
            "training.model can't change while the job runs: set suspend: true first",
        ),
        (
            f"{_SETTLED} || (has(self.spec.image) ? self.spec.image : '') == (has(oldSelf.spec.image) ? oldSelf.spec.image : '')",
            "image can't change while the job runs: set suspend: true, then change it, then resume",
        ),
    )
    api_version: Literal["splitppo.io/v1alpha1"] = "splitppo.io/v1alpha1"
    """splitppo.io/v1alpha1"""
    kind: Literal["SplitPPOJob"] = "SplitPPOJob"
    """SplitPPOJob"""
    metadata: Metadata
    """Name, namespace, labels."""
    spec: SplitPPOJobSpec
    """What to train, and on which GPUs."""
    status: SplitPPOJobStatus | None = None
    """What has happened so far."""


def parse_job(data: dict[str, Any]) -> SplitPPOJob:
    """A job as the API server returns it: the status, if any, is read leniently (its times are text)."""
    spec_part = {k: v for k, v in data.items() if k != "status"}
    job = SplitPPOJob.model_validate(spec_part, by_alias=True, by_name=False)
    if not data.get("status"):
        return job
    return job.model_copy(update={"status": SplitPPOJobStatus.model_validate(data["status"], strict=False)})
