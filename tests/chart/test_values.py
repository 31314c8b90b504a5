"""Values that can't be are refused before anything is applied, by name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from chart.rendering import CHART, defaults, render

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    return SCHEMA["definitions"][reference.rsplit("/", 1)[1]] if reference else schema


def objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema that has named keys."""
    schema = resolved(schema)
    if "properties" in schema and path != "resources":
        yield path, schema
        for name, inner in schema["properties"].items():
            yield from objects(inner, f"{path}.{name}".strip("."))


def test_no_object_takes_keys_it_does_not_know() -> None:
    assert [path for path, schema in objects(SCHEMA) if schema.get("additionalProperties") is not False] == []


def test_schema_and_values_name_the_same_things() -> None:
    for path, schema in objects(SCHEMA):
        values = defaults()
        for part in filter(None, path.split(".")):
            values = values[part]
        assert set(schema["properties"]) - {"global"} == set(values), path or "top level"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"replicaCount": 3}, "Additional property replicaCount is not allowed"),
    ({"image": {"repo": "x"}}, "image: Additional property repo is not allowed"),
    ({"metrics": {"serviceMonitor": {"enable": True}}}, "Additional property enable is not allowed"),
    ({"replicas": "2"}, "replicas: Invalid type. Expected: integer"),
    ({"namespaces": "team-a"}, "namespaces: Invalid type. Expected: array"),
    ({"namespaces": ["Team_A"]}, "namespaces.0: Does not match pattern"),
    ({"operator": {"logLevel": "LOUD"}}, "operator.logLevel must be one of the following"),
    ({"image": {"digest": "latest"}}, "image.digest: Does not match pattern"),
    ({"runAsUser": 0}, "runAsUser: Must be greater than or equal to 1"),
    ({"metrics": {"port": 80}}, "metrics.port: Must be greater than or equal to 1024"),
    ({"metrics": {"port": 8081}}, "metrics.port is 8081, where the operator answers the kubelet's probes"),
    ({"serviceAccount": {"create": False}}, "say in serviceAccount.name which ServiceAccount"),
    ({"metrics": {"enabled": False, "rules": {"enabled": True}}}, "set metrics.enabled to true"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_refuses_with_a_sentence(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        render(values)
