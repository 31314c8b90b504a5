"""The reference page in docs/: every field with its type, default and meaning, from the same schema as the CRD."""

import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_INTRO = """# SplitPPOJob reference

<!-- Written by `make generate` from the types in split_ppo/api. -->

Group `splitppo.io`, version `v1alpha1`, kind `SplitPPOJob`, short name `sppo`. `kubectl explain sppo.spec` shows the same texts.
Fields marked **required** have no default.
"""


def reference_page(root: Schema) -> str:
    parts = [_INTRO]
    for part in ("spec", "status"):
        parts.append(f"\n## {part}\n\n{root['properties'][part].get('description', '')}\n")
        for path, schema in _objects(part, root["properties"][part]):
            if path != part:
                parts.append(f"\n### {path}\n\n{schema.get('description', '')}\n")
            parts.append(_table(schema))
            parts.extend(
                f"\n- {rule['message'][0].upper()}{rule['message'][1:]}."
                for rule in schema.get("x-kubernetes-validations", [])
            )
            if schema.get("x-kubernetes-validations"):
                parts.append("\n")
    parts.append("\n## Rules on the whole job\n")
    parts.extend(
        f"\n- {rule['message'][0].upper()}{rule['message'][1:]}." for rule in root.get("x-kubernetes-validations", [])
    )
    return "".join(parts) + "\n"


def _objects(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The object and the objects below it, each once, outermost first."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        suffix = ""
        while child.get("type") == "array":
            child, suffix = child["items"], suffix + "[]"
        if "properties" in child:
            yield from _objects(f"{path}.{name}{suffix}", child)


def _table(schema: Schema) -> str:
    required = set(schema.get("required", []))
    rows = ["\n| field | type | default | |", "|---|---|---|---|"]
    for name, child in schema["properties"].items():
        default = "**required**" if name in required else _default(child)
        rows.append(f"| `{name}` | {_type(child)} | {default} | {child.get('description', '')} |")
    return "\n".join(rows) + "\n"


def _default(schema: Schema) -> str:
    if "default" not in schema or schema["default"] == {}:
        return ""
    return f"`{json.dumps(schema['default'])}`"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{v}`" for v in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return "object, any fields"
    return str(schema.get("format") or schema.get("type"))
