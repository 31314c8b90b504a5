"""The few pieces of Kubernetes' own API that a SplitPPOJob repeats.

Only what people need often is typed; everything else goes through `podTemplate`, which is passed on as it is. That keeps the
CRD small enough for a plain `kubectl apply`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from split_ppo.api.base import AbsolutePath, ApiModel, Name, schema_extra

FreeForm = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
NodeSelector = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)]


class KeySelector(ApiModel):
    """One key of a Secret or ConfigMap in the job's namespace."""

    name: Name
    """Name of the Secret or ConfigMap."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """Key in it."""
    optional: bool = False
    """Start even if it does not exist."""


class EnvVarSource(ApiModel):
    """Where the value of an environment variable comes from."""

    model_config = schema_extra(
        ("has(self.secretKeyRef) != has(self.configMapKeyRef)", "give exactly one of secretKeyRef and configMapKeyRef")
    )
    secret_key_ref: KeySelector | None = None
    """A key of a Secret: the way to pass HF_TOKEN or WANDB_API_KEY."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""


class EnvVar(ApiModel):
    """An environment variable of every pod of the job."""

    model_config = schema_extra(("!(has(self.value) && has(self.valueFrom))", "give value or valueFrom, not both"))
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=253)]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Its value, as text."""
    value_from: EnvVarSource | None = None
    """Take the value from a Secret or ConfigMap instead."""


class Toleration(ApiModel):
    """A taint that the pods accept."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Key of the taint; empty with operator Exists means every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect to accept; none means all of them."""
    toleration_seconds: int | None = None
    """How long a NoExecute taint is tolerated."""


class LocalReference(ApiModel):
    """An object in the job's namespace."""

    name: Name
    """Name of the object."""


class VolumeClaim(ApiModel):
    """A PersistentVolumeClaim mounted in every pod of the job, for models and data."""

    claim_name: Name
    """The claim."""
    path: AbsolutePath
    """Where it is mounted."""
    sub_path: Annotated[str, Field(pattern=r"^[^/].*$", max_length=1024)] | None = None
    """A folder inside it."""
    read_only: bool = True
    """Mount it read-only."""
