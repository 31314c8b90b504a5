"""pydantic's errors as sentences: what stands there, what can stand there, and what was probably meant."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from split_ppo.api.base import ApiModel, models_in
from split_ppo.api.job import SplitPPOJob

Path = Sequence[str | int]

_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "string": "text (in quotes, if it looks like a number)",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "datetime": "a time",
}
_EXAMPLES = {
    "memory": "64Gi",
    "sharedMemory": "16Gi",
    "actorFraction": "3/4",
    "gpuResource": "nvidia.com/gpu",
    "rayVersion": "2.58.0",
    "resource": "actor_pool",
    "path": "/checkpoints",
    "claimName": "my-claim",
    "queueName": "team-queue",
}


def describe(error: ErrorDetails, data: Any) -> tuple[Path, str]:
    """Where the error is, as a path into the document, and a sentence about it."""
    path = [step for step in error["loc"] if step != "function-before"]
    kind, where, name = error["type"], dotted(path), str(path[-1]) if path else ""
    context = error.get("ctx") or {}
    if kind == "extra_forbidden":
        known = _fields_at(path[:-1])
        meant = _closest(name, known)
        hint = f" Did you mean {meant}?" if meant else f" Known here: {', '.join(known)}."
        return path, f"unknown field {where}.{hint}"
    if kind == "missing":
        text = _description_at(path)
        return path[:-1], f"{where} is missing{': ' + text if text else '.'}"
    value = error.get("input")
    if kind == "literal_error":
        allowed = _literals(str(context.get("expected", "")))
        meant = _closest(str(value), allowed)
        return path, f"{where} is {_shown(value)}; it can be {_list(allowed)}." + (
            f" Did you mean {meant}?" if meant else ""
        )
    if kind.endswith(("_type", "_parsing", "_from_float")):
        wanted = _WANTED.get(kind.split("_")[0], "something else")
        return path, f"{where} is {_shown(value)}; it must be {wanted}."
    bounds = {
        "greater_than_equal": ("ge", "at least"),
        "less_than_equal": ("le", "at most"),
        "greater_than": ("gt", "more than"),
    }
    if kind in bounds:
        key, words = bounds[kind]
        return path, f"{where} is {_shown(value)}; it must be {words} {context[key]}."
    if kind == "string_pattern_mismatch":
        example = f"write it like {_EXAMPLES[name]}" if name in _EXAMPLES else f"it must match {context.get('pattern')}"
        return path, f"{where} is {_shown(value)}; {example}."
    return path, f"{where}: {error['msg'][0].lower()}{error['msg'][1:]}."


def dotted(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def _model_at(path: Path) -> type[ApiModel] | None:
    model: type[ApiModel] | None = SplitPPOJob
    for step in path:
        if isinstance(step, int):
            continue
        if model is None:
            return None
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == step), None)
        model = next(iter(models_in(field.annotation)), None) if field else None
    return model


def _fields_at(path: Path) -> list[str]:
    model = _model_at(path)
    return [f.alias or n for n, f in model.model_fields.items()] if model else []


def _description_at(path: Path) -> str:
    model = _model_at(path[:-1])
    for name, field in model.model_fields.items() if model else ():
        if (field.alias or name) == path[-1]:
            return " ".join((field.description or "").split())
    return ""


def _closest(word: str, known: Sequence[str]) -> str | None:
    by_lower = {k.lower(): k for k in known}
    found = get_close_matches(word.lower().replace("_", ""), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _literals(expected: str) -> list[str]:
    return [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]


def _list(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, bool):
        return f"{str(value).lower()}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value)
