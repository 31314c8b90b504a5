"""What a run owns is found and ended, and nothing else is touched. Real processes, real shared memory."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from split_ppo_trainer import leftovers
from split_ppo_trainer.leftovers import SHARED_MEMORY, Estate, Process, end_abandoned

# Holds a segment and a named semaphore, as vLLM does, and neither asks nor tells when it is ended.
HOLDER = """
import multiprocessing, signal, sys
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *a: None
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
segment = shared_memory.SharedMemory(create=True, size=4096)
semaphore = multiprocessing.get_context("spawn").Semaphore()
print(segment.name, "sem." + semaphore._semlock.name.lstrip("/"), flush=True)
signal.pause()
"""


STARTED: list[tuple[subprocess.Popen[str], set[str]]] = []


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Estates of its own for each test, and nothing left of it if it fails."""
    monkeypatch.setattr(leftovers, "HOME", tmp_path / "home")
    yield
    while STARTED:
        process, names = STARTED.pop()
        process.kill()
        process.wait()
        for name in names:
            (SHARED_MEMORY / name).unlink(missing_ok=True)


@pytest.fixture
def foreign_segment() -> Iterator[str]:
    segment = shared_memory.SharedMemory(create=True, size=64)
    yield segment.name
    segment.close()
    segment.unlink()


@pytest.fixture
def owner() -> Iterator[int]:
    """A process of its own: what descends from an owner belongs to the run."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process.pid
    process.kill()
    process.wait()


def holder(environment: dict[str, str], *arguments: str) -> tuple[subprocess.Popen[str], set[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    names = set(process.stdout.readline().split())
    STARTED.append((process, names))
    return process, names


def in_shared_memory() -> set[str]:
    return {entry.name for entry in os.scandir(SHARED_MEMORY)}


@pytest.mark.parametrize("manner", ["ordinary", "stubborn"])
def test_processes_and_shared_memory_of_a_run_go_with_it(manner: str, foreign_segment: str, owner: int) -> None:
    estate, other = Estate.found(owner=owner), Estate.found(owner=owner)
    mine, names = holder(estate.environment, manner)
    theirs, their_names = holder(other.environment)
    assert len(names) == 2
    assert names <= in_shared_memory()
    estate.end(patience=0.5)
    assert not names & in_shared_memory()
    assert {foreign_segment, *their_names} <= in_shared_memory()
    assert mine.wait() != 0
    assert theirs.poll() is None
    assert not estate.folder.exists()
    other.end(patience=0)
    assert not their_names & in_shared_memory()


def test_memory_noted_while_its_holder_lived_is_removed_after_it_is_gone(owner: int) -> None:
    estate = Estate.found(owner=owner)
    process, names = holder(estate.environment)
    estate.note_shared_memory()
    process.kill()
    process.wait()
    assert names <= in_shared_memory()
    Estate(estate.folder).end()  # from the record alone, as the next run would
    assert not names & in_shared_memory()


def test_a_name_that_belongs_to_somebody_else_by_now_is_left_alone(foreign_segment: str, owner: int) -> None:
    estate = Estate.found(owner=owner)
    inode = (SHARED_MEMORY / foreign_segment).stat().st_ino
    (estate.folder / "shared-memory").write_text(f"{inode + 1} {foreign_segment}\n")
    estate.end()
    assert foreign_segment in in_shared_memory()


def test_only_estates_without_an_owner_are_ended(owner: int) -> None:
    keeper = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    abandoned, kept = Estate.found(owner=keeper.pid), Estate.found(owner=owner)
    process, names = holder(abandoned.environment)
    abandoned.note_shared_memory()
    assert end_abandoned() == []
    keeper.kill()
    keeper.wait()
    assert end_abandoned() == [abandoned.run_id]
    assert process.wait() == -signal.SIGTERM
    assert not names & in_shared_memory()
    assert kept.folder.exists()
    kept.end()


def test_a_process_that_lost_its_mark_is_known_by_its_log_and_a_reader_of_the_log_is_not() -> None:
    """setproctitle writes over part of the environment that /proc shows; one without the mark stands for that here."""
    gone = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    estate = Estate.found(owner=gone.pid)
    gone.kill()
    gone.wait()
    log = estate.folder / "worker.log"
    pause = [sys.executable, "-c", "import signal; signal.pause()"]
    with log.open("w") as writing, log.open() as reading:
        ours = subprocess.Popen(pause, stdout=writing)
        reader = subprocess.Popen(pause, stdin=reading)
    assert estate.processes() == [ours.pid]
    estate.end()
    assert ours.wait() == -signal.SIGTERM
    assert reader.poll() is None
    reader.kill()
    reader.wait()


def test_what_descends_from_the_owner_is_the_runs() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; print(1, flush=True); signal.pause()'])"
    family = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert family.stdout is not None
    family.stdout.readline()
    estate = Estate.found(owner=family.pid)
    assert len(estate.processes()) == 1
    estate.end()
    assert family.wait() == 0


def test_a_reused_process_number_is_not_the_owner() -> None:
    assert Process.of(os.getpid()).alive
    assert not Process(os.getpid(), "1").alive
