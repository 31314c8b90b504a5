"""The trainer's plan file: the resolved placement and verl's settings, together all that a run needs.

The operator mounts it into the head pod, `split-ppo run` writes it into the output folder; the trainer reads nothing else.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from split_ppo.api.job import SplitPPOJob
from split_ppo.api.policy_spec import Overlap
from split_ppo.placement.plan import PlacementPlan
from split_ppo.verl_config import verl_settings


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class JobRef(_Part):
    """The job and the attempt that this plan is for."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    attempt: int = 1


class RunStorage(_Part):
    """Where checkpoints go, how often, and how many stay."""

    path: str | None = None
    every_steps: int = Field(default=20, alias="everySteps")
    keep: int = 3


class RunBalance(_Part):
    """What to do with the measured advice on a better split."""

    mode: Literal["None", "Recommend", "Apply"] = "None"
    min_gain_percent: int = Field(default=10, alias="minGainPercent")
    # Once the run has moved: the split that it began on, and the measured step of each that it has left.
    asked: str | None = None
    tried: dict[str, float] = Field(default_factory=dict)


class RunPlan(_Part):
    api_version: Literal["splitppo.io/v1alpha1"] = Field(default="splitppo.io/v1alpha1", alias="apiVersion")
    kind: Literal["RunPlan"] = "RunPlan"
    job: JobRef
    placement: PlacementPlan
    overlap: Overlap
    storage: RunStorage
    balance: RunBalance = RunBalance()
    verl: dict[str, Any]

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def resolve(
    job: SplitPPOJob,
    placement: PlacementPlan,
    *,
    attempt: int = 1,
    checkpoint_dir: str | None = None,
    reward_file: str | None = None,
) -> RunPlan:
    """The plan file of one attempt."""
    spec = job.spec
    return RunPlan(
        job=JobRef(name=job.metadata.name, namespace=job.metadata.namespace, uid=job.metadata.uid, attempt=attempt),
        placement=placement,
        overlap=spec.overlap,
        storage=RunStorage(path=checkpoint_dir, every_steps=spec.storage.every_steps, keep=spec.storage.keep),
        balance=_balance(job),
        verl=verl_settings(spec, checkpoint_dir=checkpoint_dir, reward_file=reward_file),
    )


def _balance(job: SplitPPOJob) -> RunBalance:
    wanted, moved = job.spec.balance, job.status.balance if job.status is not None else None
    if moved is None:
        return RunBalance(mode=wanted.mode, min_gain_percent=wanted.min_gain_percent)
    return RunBalance(
        mode="Recommend" if moved.settled else wanted.mode,
        min_gain_percent=wanted.min_gain_percent,
        asked=moved.asked,
        tried=moved.tried,
    )
