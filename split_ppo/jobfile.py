"""Reading SplitPPOJobs from YAML, with errors that say the line and what to write instead.

A file may hold several documents; the SplitPPOJobs in it are read, the others are kept for whoever needs them (`split-ppo run`
takes a reward function's ConfigMap from the same file). YAML means here what it means to `kubectl apply`: 1e-6 is a number, a key
given twice is an error, null is the same as left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, SequenceNode

from split_ppo.api import API_VERSION, KIND
from split_ppo.api.job import SplitPPOJob, parse_job
from split_ppo.api.problems import describe

Path = Sequence[str | int]


@dataclass(frozen=True)
class Problem:
    """Something wrong at a line of a file."""

    line: int
    message: str


class JobFileError(Exception):
    """The file can't be read as SplitPPOJobs; all problems at once."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source, self.problems = source, tuple(problems)
        super().__init__("\n".join(f"{source}:{p.line}: {p.message}" for p in self.problems))


@dataclass(frozen=True)
class LoadedJob:
    """A job and where its fields stand in the file."""

    job: SplitPPOJob
    node: Node

    def line_of(self, field: str) -> int:
        """The line of a dotted field, or of the nearest thing above it that is there."""
        return _locate(self.node, field.split("."))


@dataclass(frozen=True)
class JobFile:
    source: str
    jobs: tuple[LoadedJob, ...]
    others: tuple[dict[str, Any], ...]


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads 1e-6 as a number, as YAML 1.2 and Kubernetes do."""


_Loader.yaml_implicit_resolvers = {k: list(v) for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def load_jobs(text: str, source: str) -> JobFile:
    """The SplitPPOJobs of a YAML text; raises JobFileError with every problem in it."""
    documents = _documents(text, source)
    jobs, others, problems = [], [], []
    for node, data in documents:
        if isinstance(data, dict) and data.get("kind") != KIND and "kind" in data and not _nearly(data):
            others.append(data)
            continue
        wrong = _identity(node, data) or [Problem(_locate(node, path), text) for path, text in _invalid(data)]
        if wrong:
            problems.extend(wrong)
        else:
            jobs.append(LoadedJob(parse_job(data), node))
    if problems:
        raise JobFileError(source, sorted(problems, key=lambda p: p.line))
    if not jobs:
        kinds = ", ".join(str(d.get("kind")) for d in others)
        what = f"it holds {kinds}" if others else "it is empty"
        raise JobFileError(source, [Problem(1, f"no {KIND} in here: {what}. A job begins with `kind: {KIND}`.")])
    return JobFile(source, tuple(jobs), tuple(others))


def _documents(text: str, source: str) -> list[tuple[Node, Any]]:
    documents: list[tuple[Node, Any]] = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # check_node has just said so
            duplicate = _duplicate_key(node)
            if duplicate:
                raise JobFileError(source, [duplicate])
            data = loader.construct_document(node)
            if data is not None:
                documents.append((node, data))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise JobFileError(source, [Problem(mark.line + 1 if mark else 1, _syntax(error))]) from None
    except yaml.YAMLError as error:
        raise JobFileError(source, [Problem(1, f"not YAML: {error}".replace("\n", " "))]) from None
    return documents


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "can't be read"
    if "\\t" in problem:
        return "a tab stands here; YAML indents with spaces."
    if "mapping values are not allowed" in problem:
        return "a second `:` stands here where none can; is the line indented too far, or does a text need quotes?"
    return f"not YAML: {problem}" + (f" {error.context}" if error.context else "") + "."


def _duplicate_key(node: Node) -> Problem | None:
    if isinstance(node, MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                return Problem(
                    key.start_mark.line + 1, f"the key {key.value} stands twice in the same place: keep one of them."
                )
            seen.add(key.value)
            if found := _duplicate_key(value):
                return found
    elif isinstance(node, SequenceNode):
        return next((found for item in node.value if (found := _duplicate_key(item))), None)
    return None


def _nearly(data: dict[str, Any]) -> bool:
    return bool(get_close_matches(str(data["kind"]).lower(), [KIND.lower()], cutoff=0.75))


def _identity(node: Node, data: Any) -> list[Problem]:
    """A document must say that it is a SplitPPOJob before its fields mean anything."""
    line = node.start_mark.line + 1
    if not isinstance(data, dict):
        return [
            Problem(
                line, f"a {KIND} is a mapping that begins with `apiVersion: {API_VERSION}`; this is something else."
            )
        ]
    for key, want in (("kind", KIND), ("apiVersion", API_VERSION)):
        if data.get(key) != want:
            have = f"is {data[key]!r}" if key in data else "is missing"
            return [Problem(_locate(node, [key]), f"{key} {have}; write `{key}: {want}`.")]
    return []


def _invalid(data: dict[str, Any]) -> list[tuple[Path, str]]:
    try:
        parse_job(data)
    except ValidationError as error:
        return [describe(e, data) for e in error.errors()]
    return []


def _locate(node: Node, path: Path) -> int:
    line = node.start_mark.line + 1
    for step in path:
        if isinstance(node, MappingNode):
            entry = next(((k, v) for k, v in node.value if k.value == str(step)), None)
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line
