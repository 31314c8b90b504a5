"""The trainer's environment is made once, complete or not at all. A small lock stands for the large one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "trainer_image" / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "trainer_env.py", tmp_path / "tools")
    lock(tmp_path, "idna==3.20")
    return tmp_path


def lock(checkout: Path, *lines: str) -> None:
    (checkout / "trainer_image" / "requirements" / "gpu.txt").write_text("# a lock\n" + "\n".join(lines) + "\n")


def start(checkout: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(checkout / "tools" / "trainer_env.py"), "--flavour", "gpu", *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, "XDG_CACHE_HOME": str(checkout / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(checkout: Path, *arguments: str) -> tuple[int, str]:
    process = start(checkout, *arguments)
    output, _ = process.communicate()
    return process.returncode, output


def where(checkout: Path) -> Path:
    return Path(run(checkout, "--print-path")[1].strip())


def test_two_at_once_make_it_once_and_a_third_finds_it(checkout: Path) -> None:
    both = [start(checkout, "--no-link") for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("made in" in output for output in outputs) == 1, outputs
    packages = next(where(checkout).glob("lib/python*/site-packages"))
    assert (packages / "idna" / "__pycache__").is_dir()
    assert "there already" in run(checkout, "--no-link")[1]


def test_what_cannot_be_installed_leaves_nothing(checkout: Path) -> None:
    lock(checkout, "idna==999")
    code, output = run(checkout, "--no-link")
    assert code == 1
    assert "error: Installing the trainer environment failed" in output
    assert [entry.suffix for entry in where(checkout).parent.iterdir()] == [".lock"]


def test_another_lock_is_another_environment(checkout: Path) -> None:
    before = where(checkout)
    lock(checkout, "idna==3.19")
    assert where(checkout) != before
