"""The trainer's image and the locks it is built from: versions in one place, no root, nothing that drifts."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from split_ppo import versions

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "trainer_image" / "Dockerfile").read_text()
LOCKS = ("cpu", "gpu")


def lock(flavour: str) -> dict[str, str]:
    """Distribution names, normalised, and their versions."""
    text = (ROOT / "trainer_image" / "requirements" / f"{flavour}.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!-]+", line) for line in lines)
    return {normalised(name): version for name, _, version in (line.partition("==") for line in lines)}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def instructions(dockerfile: str = DOCKERFILE) -> list[str]:
    joined = re.sub(r"\\\n", " ", dockerfile)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def test_the_dockerfile_takes_its_packages_from_the_locks_alone() -> None:
    assert "tools/trainer_env.py --flavour" in DOCKERFILE
    for name, version in {"ray": versions.RAY, "verl": versions.VERL, **versions.GPU, **versions.CPU}.items():
        assert f"{name}=={version}" not in DOCKERFILE
        assert version not in DOCKERFILE.replace("0.1.0", ""), f"{name}'s version {version} belongs in the lock"


def test_both_flavours_are_stages_of_the_same_file() -> None:
    for flavour in LOCKS:
        assert f"AS flash-attn-{flavour}" in DOCKERFILE
    assert "image_check" in DOCKERFILE


def test_the_last_stage_is_not_root_and_checks_itself() -> None:
    last = instructions()[[i for i, line in enumerate(instructions()) if line.startswith("FROM")][-1] :]
    [user] = [line for line in last if line.startswith("USER")]
    assert re.fullmatch(r"USER [1-9]\d*(:\d+)?", user), "Kubernetes can only tell from a number that it is not root"
    assert last.index(user) > max(i for i, line in enumerate(last) if line.startswith("RUN"))
    assert any("split_ppo_trainer.image_check" in line for line in last)


@pytest.mark.parametrize("file", ["Dockerfile", "trainer_image/Dockerfile"])
def test_every_copied_path_is_in_the_build_context(file: str) -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in instructions((ROOT / file).read_text()):
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists()
                assert source.split("/")[0] in allowed


@pytest.mark.parametrize("flavour", LOCKS)
def test_the_lock_agrees_with_the_light_half_beside_it(flavour: str) -> None:
    """The trainer's packages are linked into .venv behind the light half's: a name in both must be one version."""
    seeds = {"pip", "setuptools"}  # those of venv itself
    locked = lock(flavour)
    light = light_half()
    differing = {name: (light[name], locked[name]) for name in light.keys() & locked.keys() - seeds}
    assert {name: pair for name, pair in differing.items() if pair[0] != pair[1]} == {}
    assert differing, "nothing in common: this test would prove nothing"


def light_half() -> dict[str, str]:
    """What is installed in .venv itself, not what is linked into it."""
    here = str(Path(metadata.distribution("pytest").locate_file("")).resolve())
    return {
        normalised(dist.metadata["Name"]): dist.version
        for dist in metadata.distributions(path=[here])
        if dist.metadata["Name"]
    }
