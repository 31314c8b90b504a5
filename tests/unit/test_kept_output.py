"""What is printed goes to the file as well, and a file that can't be written never ends a run."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import faulthandler, sys
from pathlib import Path
from split_ppo_trainer.kept_output import keep_output
keep_output(Path(sys.argv[1]))
faulthandler.enable()
print("to the world")
print("a complaint", file=sys.stderr)
raise ValueError("and the end")
"""


def run(path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False)


def test_both_streams_and_the_last_traceback_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "attempts/1/run.log"
    done = run(log)
    assert done.returncode == 1
    assert done.stdout == "to the world\n"
    kept = log.read_text()
    assert kept.startswith("to the world\na complaint\nTraceback")
    assert kept.endswith("ValueError: and the end\n")
    assert done.stderr == kept.removeprefix("to the world\n")


def test_a_place_that_cannot_be_written_is_only_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path / "file/run.log")
    assert done.stdout == "to the world\n"
    assert "There will be no log file" in done.stderr


def test_a_full_disk_is_said_once() -> None:
    done = run(Path("/dev/full"))
    assert (done.stdout + done.stderr).count("The log file is not written any more") == 1
    assert "to the world" in done.stdout
    assert done.stderr.endswith("ValueError: and the end\n")
