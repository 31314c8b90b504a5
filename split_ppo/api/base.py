"""What every API type shares.

Fields are snake_case in Python and camelCase in YAML. Unknown fields are refused, so that a typo is an error and not a
setting silently lost. The text under a field is its description everywhere: CRD, `kubectl explain`, editor, docs.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        # 1 is not "1" and "true" is not true: Kubernetes refuses them, so the CLI does too.
        strict=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        """The API server drops nulls before it fills in defaults; a file read by the CLI must mean the same."""
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


def schema_extra(*rules: tuple[str, str], **extra: Any) -> ConfigDict:
    """Config of a type: CEL rules as (rule, message), and whatever else Kubernetes wants in its schema.

    The rules reach the CRD as they are and say what `kubectl apply` must refuse by itself. The same things are among the
    checks in `split_ppo.placement.checks`, which can name the numbers.
    """
    if rules:
        extra["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in rules]
    return ConfigDict(json_schema_extra=extra)


def list_map(*keys: str) -> dict[str, Any]:
    """A list whose items are told apart by keys, so that server-side apply can share it between owners."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def models_in(annotation: Any) -> list[type[ApiModel]]:
    """The API types that an annotation speaks of: `list[Toleration]`, `Pool | None`."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return [annotation]
    return [model for arg in getattr(annotation, "__args__", ()) for model in models_in(arg)]


Quantity = Annotated[
    str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$", max_length=32, examples=["64Gi"])
]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]
AbsolutePath = Annotated[str, Field(pattern=r"^/", max_length=1024)]
PathOrUri = Annotated[str, Field(min_length=1, max_length=1024)]
