"""Jobs nobody would write by hand: examples with fields replaced by whatever the schema allows, and by what it does not.

Deterministic: the same `random.Random` gives the same jobs.
"""

import random
import re
from copy import deepcopy
from functools import cache
from typing import Any

import yaml

from split_ppo.api.generate import ROOT
from split_ppo.api.schema import structural_schema

Schema = dict[str, Any]
# fmt: off
WORDS = (
    "a", "x-1", "actor", "critic", "model", "64Gi", "1", "500m", "/data", "nvidia.com/gpu", "1/2", "3/4", "0.5", "A_B",
    "team-queue", "train.parquet", "2.58.0", "NoSchedule", "Exists", "kubernetes.io/hostname", "{{x}}", "ä",
)
HOSTILE: tuple[Any, ...] = (
    None, "", " ", -1, 0, 2**31, 2**63 - 1, 1e308, 0.1, True, [], {}, ["a"], {"a": 1}, "x" * 300, "ö", "-",
)
# fmt: on


@cache
def _examples() -> tuple[dict[str, Any], ...]:
    files = sorted((ROOT / "examples").glob("*.yaml"))
    documents = [d for file in files for d in yaml.safe_load_all(file.read_text())]
    return tuple(d for d in documents if d and d["kind"] == "SplitPPOJob")


@cache
def schema_of_spec() -> Schema:
    return dict(structural_schema()["properties"]["spec"])


def generated_job(rng: random.Random, name: str, *, hostile: float = 0.3) -> dict[str, Any]:
    """An example with up to four fields changed; `hostile` is how often a change ignores the schema."""
    document = deepcopy(rng.choice(_examples()))
    document["metadata"] = {"name": name}
    for _ in range(rng.randrange(5)):
        change(rng, document["spec"], schema_of_spec(), hostile)
    return document


def change(rng: random.Random, spec: dict[str, Any], schema: Schema, hostile: float) -> None:
    """Replace one field somewhere."""
    properties = schema.get("properties", {})
    key = rng.choice(sorted(properties))
    inner = properties[key]
    if inner.get("properties") and rng.random() < 0.85:
        below = spec.setdefault(key, {})
        if isinstance(below, dict):
            change(rng, below, inner, hostile)
            return
    if rng.random() < 0.15:
        spec.pop(key, None)
    else:
        spec[key] = rng.choice(HOSTILE) if rng.random() < hostile else value(rng, inner)


def value(rng: random.Random, schema: Schema) -> Any:
    """Something the schema allows, as far as patterns can be met with the words above."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", 10_000))
            return rng.choice([low, high, min(low + 1, high), rng.randint(low, min(high, low + 16))])
        case "number":
            return rng.choice([schema.get("minimum", 0.0), 0.5, 1.0, 1e-6])
        case "array":
            most = min(int(schema.get("maxItems", 2)), 2)
            return [
                value(rng, schema["items"]) for _ in range(rng.randint(min(int(schema.get("minItems", 0)), most), most))
            ]
        case "object" if "properties" in schema:
            wanted = set(schema.get("required", ())) | {k for k in schema["properties"] if rng.random() < 0.3}
            return {k: value(rng, schema["properties"][k]) for k in sorted(wanted)}
        case "object":
            return {rng.choice(WORDS): rng.choice(WORDS) for _ in range(rng.randrange(2))}
        case "string":
            fitting = [w for w in WORDS if re.search(schema.get("pattern", ""), w)] or ["a"]
            return rng.choice(fitting)
    return rng.choice(WORDS)
