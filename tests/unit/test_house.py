"""Rules of the house that no linter knows."""

import re
import subprocess
import tomllib

from split_ppo import __version__, versions
from split_ppo.api.generate import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(lines: str) -> dict[str, str]:
    return {
        m[1].lower(): m[2] for m in re.finditer(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^\s;]+)", lines, re.MULTILINE)
    }


def test_source_roots_are_never_packages() -> None:
    # An operator/__init__.py would shadow the standard library's operator, and Python itself would not start.
    assert not (ROOT / "operator/__init__.py").exists()
    assert not (ROOT / "trainer_image/__init__.py").exists()


def test_the_light_half_stays_light() -> None:
    names = {re.split(r"[<>=\[ ]", d, maxsplit=1)[0].lower() for d in PROJECT["dependencies"]}
    assert not names & {"torch", "verl", "vllm", "ray", "transformers"}


def test_the_trainer_extra_is_the_gpu_flavour() -> None:
    extra = pins("\n".join(PROJECT["optional-dependencies"]["trainer"]))
    assert extra == {"ray": versions.RAY, "verl": versions.VERL, **versions.GPU}


def test_the_cpu_lock_agrees() -> None:
    lock = pins((ROOT / "trainer_image/requirements/cpu.txt").read_text())
    expected = {"ray": versions.RAY, "verl": versions.VERL, **versions.CPU}
    assert {name: lock.get(name) for name in expected} == expected


def test_the_gpu_lock_agrees() -> None:
    lock = pins((ROOT / "trainer_image/requirements/gpu.txt").read_text())
    expected = {"ray": versions.RAY, "verl": versions.VERL, **versions.GPU}
    assert {name: lock.get(name) for name in expected} == expected


def test_the_changelog_knows_this_version() -> None:
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_path_of_a_machine_is_committed() -> None:
    found = subprocess.run(
        ["git", "grep", "-nIE", r"(^|[^a-z.])/(work|root|home/[a-z]+)/", "--", ".", ":!*.sum", ":!*.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in found.stdout.splitlines() if "test_house.py" not in line]
    assert lines == []
