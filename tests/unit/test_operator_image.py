"""The operator's image and the list it is built from: complete, small, not root, nothing that drifts; and the SBOM."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata

from packaging.requirements import Requirement

from split_ppo.api.generate import ROOT
from unit.test_image import instructions, normalised

DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lock(file: str) -> dict[str, str]:
    lines = [line for line in (ROOT / file).read_text().splitlines() if line and not line.startswith("#")]
    return {normalised(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_the_lock_is_what_the_project_asks_for() -> None:
    locked = lock("operator/requirements.txt")
    for text in PROJECT["dependencies"]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(locked[normalised(wanted.name)]), text


def test_the_lock_is_complete() -> None:
    """Everything that something in it needs is in it: it is installed without asking for more."""
    locked = lock("operator/requirements.txt")
    missing = set()
    for name in locked:
        for text in metadata.requires(name) or []:
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"python_version": "3.11", "extra": ""}):
                missing |= {normalised(wanted.name)} - set(locked)
    assert missing == set()


def test_the_lock_agrees_with_the_trainers() -> None:
    operator, trainer = lock("operator/requirements.txt"), lock("trainer_image/requirements/cpu.txt")
    differing = {n: (operator[n], trainer[n]) for n in operator.keys() & trainer.keys() if operator[n] != trainer[n]}
    assert differing == {}


def test_the_last_stage_is_not_root_and_installs_nothing() -> None:
    last = instructions(DOCKERFILE)[
        [i for i, line in enumerate(instructions(DOCKERFILE)) if line.startswith("FROM")][-1] :
    ]
    [user] = [line for line in last if line.startswith("USER")]
    assert re.fullmatch(r"USER [1-9]\d*:\d+", user), "Kubernetes can only tell from a number that it is not root"
    assert not any(word in line for line in last for word in ("pip", "apt-get"))
    [start] = [line for line in last if line.startswith("ENTRYPOINT")]
    assert "split_ppo_operator" in start


def sbom(*arguments: str) -> dict[str, object]:
    command = [sys.executable, str(ROOT / "tools" / "sbom.py"), *arguments]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def test_the_sbom_names_every_package_and_how_they_hang_together() -> None:
    document = sbom()
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    components = document["components"]
    assert isinstance(components, list)
    versions = {normalised(c["name"]): c["version"] for c in components}
    assert versions["kopf"] == metadata.version("kopf")
    assert versions["split-ppo"] == PROJECT.get("version", metadata.version("split-ppo"))
    assert len({c["bom-ref"] for c in components}) == len(components)
    graph = document["dependencies"]
    assert isinstance(graph, list)
    edges = {entry["ref"]: entry["dependsOn"] for entry in graph}
    whole, core = (f"pkg:pypi/{name}@{metadata.version(name)}" for name in ("pydantic", "pydantic-core"))
    assert core in edges[whole]


def test_the_same_packages_give_the_same_sbom() -> None:
    assert sbom("--name", "x") == sbom("--name", "x")
