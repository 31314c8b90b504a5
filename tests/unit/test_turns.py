"""Runs that take turns: one works while the others stand still, and nobody is left behind."""

import os
import signal
import subprocess
import sys
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from benchmarks.trainer_turns import Turn, halt, take_turns
from split_ppo_trainer.leftovers import stat_fields

# Steps are made by a child, as those of a run are; a run that is interrupted says so.
RUN = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
folder, steps = sys.argv[1], int(sys.argv[2])
for _ in range(steps):
    time.sleep(0.05)
    with open(f"{folder}/metrics.jsonl", "a") as file:
        file.write(f"{time.monotonic()}" + chr(10))
''', *sys.argv[1:3]])
try:
    child.wait()
except KeyboardInterrupt:
    child.kill()
    open(f"{sys.argv[1]}/interrupted", "w").close()
    sys.exit(130)
sys.exit(int(sys.argv[3]))
"""


def turn(folder: Path, *, steps: int, block: int, code: int = 0) -> Turn:
    folder.mkdir()
    command = [sys.executable, "-c", RUN, str(folder), str(steps), str(code)]
    return Turn(folder, partial(subprocess.Popen, command), steps=block)


def made(folder: Path) -> list[float]:
    return [float(line) for line in (folder / "metrics.jsonl").read_text().split()]


def test_one_works_while_the_other_stands_still(tmp_path: Path) -> None:
    turns = [turn(tmp_path / "long", steps=30, block=6), turn(tmp_path / "short", steps=15, block=3)]
    take_turns(turns)
    moments = sorted((moment, folder) for folder in ("long", "short") for moment in made(tmp_path / folder))
    blocks = [(folder, len(list(steps))) for folder, steps in groupby(moments, key=lambda step: step[1])]
    assert len(moments) == 45
    assert [folder for folder, _ in blocks[:3]] == ["long", "short", "long"]
    for folder, count in blocks[:-2]:
        assert count >= (6 if folder == "long" else 3), blocks


def test_a_run_that_fails_ends_the_others_as_ctrl_c_would(tmp_path: Path) -> None:
    turns = [turn(tmp_path / "patient", steps=1000, block=2), turn(tmp_path / "failing", steps=1, block=5, code=3)]
    with pytest.raises(SystemExit, match=r"failed with 3; see .*failing\.log"):
        take_turns(turns)
    assert (tmp_path / "patient/interrupted").exists()
    assert all(found.ended for found in turns)


def test_what_has_ended_is_not_waited_for() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a zombie until somebody asks
    assert stat_fields(ended.pid)[0] == "Z"
    halt(ended.pid)
    ended.wait()


def test_standing_still_and_going_on() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        halt(sleeper.pid)
        assert stat_fields(sleeper.pid)[0] == "T"
    finally:
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
