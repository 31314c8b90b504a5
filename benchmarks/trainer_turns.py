"""Runs that take turns on the same cores: while one works, the others stand still.

What runs at different minutes can't be compared on a machine whose speed changes from minute to minute. So all runs of a scenario
are started, and each works for a block of steps and is then stopped with everything it has started (SIGSTOP), until it is its
turn again. A run that stands still takes memory and no time. The step during which it stood is not timed.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from split_ppo_trainer.leftovers import process_parents, stat_fields, with_descendants

LOOK_SECONDS = 0.2


@dataclass
class Turn:
    """A run: how it is started, where it writes, and how many steps it makes when it is its turn."""

    folder: Path
    start: Callable[[], subprocess.Popen[Any]]
    steps: int
    process: subprocess.Popen[Any] | None = None

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def work(self) -> None:
        """Until it has made its steps or has ended; then it stands still."""
        if self.process is None:
            self.process = self.start()
        else:
            send(self.process.pid, signal.SIGCONT)
        until = steps_made(self.folder) + self.steps
        while not self.ended and steps_made(self.folder) < until:
            time.sleep(LOOK_SECONDS)
        if not self.ended:
            halt(self.process.pid)

    def end(self) -> None:
        """As Ctrl-C would: it cleans up behind itself."""
        if self.process is not None and not self.ended:
            self.process.send_signal(signal.SIGINT)
            send(self.process.pid, signal.SIGCONT)
            self.process.wait()


def take_turns(turns: Sequence[Turn]) -> None:
    """Until all have ended well; the first that fails, or Ctrl-C, ends the others."""
    try:
        while going := [turn for turn in turns if not turn.ended]:
            for turn in going:
                turn.work()
                if turn.ended and turn.process is not None and turn.process.returncode:
                    raise SystemExit(f"the run failed with {turn.process.returncode}; see {turn.folder}.log")
    finally:
        for turn in turns:
            turn.end()


def steps_made(folder: Path) -> int:
    try:
        return (folder / "metrics.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def halt(root: int) -> None:
    """A process and all that descend from it, those included that were started meanwhile; whoever has ended stands still."""
    while moving := [pid for pid in family(root) if stat_fields(pid)[:1] not in ([], ["T"], ["Z"], ["X"])]:
        for pid in moving:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(0.01)


def send(root: int, number: signal.Signals) -> None:
    for pid in family(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def family(root: int) -> set[int]:
    """A run adopts what loses its parent, so all it has started descends from it."""
    return with_descendants({root}, process_parents())
