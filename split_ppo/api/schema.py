"""From the pydantic types to the schemas others read: Kubernetes' structural schema and JSON Schema for editors.

Kubernetes takes a part of OpenAPI 3.0: no references, no null in a union (an absent field is the same), exclusive bounds
as booleans, and `additionalProperties` never beside `properties`. Pure; `generate` writes the files.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticUndefined

from split_ppo.api import CATEGORIES, GROUP, KIND, PLURAL, SHORT_NAME, SINGULAR, VERSION
from split_ppo.api.base import ApiModel, models_in
from split_ppo.api.job import SplitPPOJob

Schema = dict[str, Any]

PRINTER_COLUMNS: list[dict[str, Any]] = [
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Pools", "type": "string", "jsonPath": ".status.poolSummary"},
    {"name": "Step", "type": "string", "jsonPath": ".status.training.progress"},
    {"name": "Reward", "type": "number", "jsonPath": ".status.training.reward"},
    {"name": "Attempt", "type": "integer", "jsonPath": ".status.attempt"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Overlap", "type": "string", "jsonPath": ".spec.overlap", "priority": 1},
    {
        "name": "Efficiency",
        "type": "number",
        "jsonPath": ".status.training.overlapEfficiency",
        "priority": 1,
        "description": "Shortest possible step ÷ measured step",
    },
    {"name": "Cluster", "type": "string", "jsonPath": ".status.rayCluster.name", "priority": 1},
    {"name": "Checkpoint", "type": "string", "jsonPath": ".status.training.checkpoint", "priority": 1},
    {
        "name": "Message",
        "type": "string",
        "jsonPath": ".status.message",
        "priority": 1,
        "description": "Why the job stands where it stands",
    },
]

_DROPPED = {"title", "examples", "$defs"}


def json_schema() -> Schema:
    """JSON Schema of a SplitPPOJob document, for editors."""
    schema = SplitPPOJob.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return schema


def structural_schema() -> Schema:
    """The CRD's openAPIV3Schema."""
    schema = SplitPPOJob.model_json_schema(by_alias=True)
    root = _structural(schema, schema.get("$defs", {}))
    _fill_object_defaults(SplitPPOJob, root)
    root["properties"]["apiVersion"] = {"type": "string"}
    root["properties"]["kind"] = {"type": "string"}
    root["properties"]["metadata"] = {"type": "object"}
    root["required"] = ["spec"]
    return root


def custom_resource_definition() -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT_NAME],
                "categories": list(CATEGORIES),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": PRINTER_COLUMNS,
                    "schema": {"openAPIV3Schema": structural_schema()},
                }
            ],
        },
    }


def _structural(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    schema = _resolve(schema, defs)
    out: Schema = {k: v for k, v in schema.items() if k not in _DROPPED}
    if out.get("default", PydanticUndefined) is None:
        del out["default"]
    if "const" in out:
        out["enum"] = [out.pop("const")]
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in out:
            out[plain], out[exclusive] = out[exclusive], True
    if "properties" in out:
        out["properties"] = {name: _structural(p, defs) for name, p in out["properties"].items()}
        out.pop("additionalProperties", None)
    elif isinstance(out.get("additionalProperties"), dict):
        out["additionalProperties"] = _structural(out["additionalProperties"], defs)
    else:
        out.pop("additionalProperties", None)
    if "items" in out:
        out["items"] = _structural(out["items"], defs)
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    return out


def _resolve(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Follow references and take the one non-null branch of an optional; what stands beside them wins."""
    while "$ref" in schema or "anyOf" in schema:
        beside = {k: v for k, v in schema.items() if k not in ("$ref", "anyOf")}
        if "$ref" in schema:
            target = defs[schema["$ref"].rsplit("/", 1)[-1]]
        else:
            branches = [b for b in schema["anyOf"] if b.get("type") != "null"]
            if len(branches) != 1:
                raise TypeError(f"a union of {len(branches)} types has no place in a structural schema: {schema}")
            target = branches[0]
        schema = {**target, **beside}
    return schema


def _fill_object_defaults(model: type[ApiModel], schema: Schema) -> None:
    """An object whose fields all have defaults is `{}` when left out, so that the API server fills those in too."""
    for name, field in model.model_fields.items():
        child = next((t for t in models_in(field.annotation)), None)
        if child is None:
            continue
        node = schema["properties"][field.alias or name]
        target = node["items"] if node.get("type") == "array" else node
        _fill_object_defaults(child, target)
        if node.get("type") == "object" and field.default_factory is not None:
            node["default"] = {}
