"""The CRD keeps Kubernetes' rules for structural schemas; the real API server has the last word in tests/cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from split_ppo.api.generate import ROOT, generated_files
from split_ppo.api.schema import custom_resource_definition, json_schema, structural_schema

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def nodes(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


def test_is_structural() -> None:
    for path, node in nodes(structural_schema()):
        assert isinstance(node.get("type"), str), path
        assert not {"$ref", "anyOf", "allOf", "oneOf", "const", "title", "nullable"} & set(node), path
        assert not ({"properties", "additionalProperties"} <= set(node)), path


def test_every_field_says_what_it_is() -> None:
    for path, node in nodes(structural_schema()):
        if path.startswith((".spec.", ".status.")) and not path.endswith("[]"):
            assert node.get("description"), path


def test_is_small_enough_for_a_plain_apply() -> None:
    # kubectl keeps a copy of what it applied in an annotation, and annotations may hold 262,144 bytes.
    assert len(json.dumps(custom_resource_definition())) < 200_000


def test_names_and_columns() -> None:
    spec = custom_resource_definition()["spec"]
    assert spec["names"]["shortNames"] == ["sppo"]
    assert set(spec["names"]["categories"]) == {"all", "ray"}
    [version] = spec["versions"]
    assert version["subresources"] == {"status": {}}
    columns = [c["name"] for c in version["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == ["Phase", "Pools", "Step", "Reward", "Attempt", "Reason", "Age"]


def test_every_column_shows_a_field_that_exists() -> None:
    schema = structural_schema()
    for column in custom_resource_definition()["spec"]["versions"][0]["additionalPrinterColumns"]:
        if column["jsonPath"].startswith(".metadata"):
            continue
        node = schema
        for step in column["jsonPath"].strip(".").split("."):
            node = node["properties"][step]


def test_objects_fill_themselves_in() -> None:
    spec = structural_schema()["properties"]["spec"]["properties"]
    assert spec["runPolicy"]["default"] == {}
    assert spec["runPolicy"]["properties"]["backoffLimit"]["default"] == 3
    assert "default" not in spec["placement"]


def test_lists_told_apart_by_keys() -> None:
    keyed = {
        p: n["x-kubernetes-list-map-keys"] for p, n in nodes(structural_schema()) if "x-kubernetes-list-map-keys" in n
    }
    assert keyed[".status.conditions"] == ["type"]
    assert keyed[".status.pools"] == ["name"]
    assert keyed[".spec.env"] == ["name"]
    for path, keys in keyed.items():
        node = structural_schema()
        for step in path.strip(".").split("."):
            node = node["properties"][step]
        assert set(keys) <= set(node["items"]["required"]), path


def test_rules_have_messages_that_are_sentences() -> None:
    rules = [r for _, n in nodes(structural_schema()) for r in n.get("x-kubernetes-validations", [])]
    assert len(rules) >= 10
    assert all(len(r["message"]) > 20 and not r["message"].endswith(".") for r in rules)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_editors_accept_the_examples(example: Path) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        if document["kind"] == "SplitPPOJob":
            # PyYAML reads 1e-6 as text; Kubernetes and editors read a number.
            rate = document["spec"]["training"].get("learningRate", {})
            document["spec"]["training"]["learningRate"] = {k: float(v) for k, v in rate.items()}
            jsonschema.validate(document, json_schema())


def test_editors_refuse_a_typo() -> None:
    document = yaml.safe_load((ROOT / "examples/four-gpus.yaml").read_text())
    document["spec"]["placment"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_schema())


@pytest.mark.parametrize("name", sorted(generated_files()))
def test_generated_files_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text() == generated_files()[name], "run `make generate`"
