"""What a run on this machine owns outside its output folder, so that it can always be found and ended.

Three things: processes, which all inherit an environment variable with the run's id; files in /dev/shm, which vLLM and
multiprocessing name at random, so they are noted down when one of our processes is seen to hold them; and a short
folder under /tmp with Ray's sockets and the record of all this. The record outlives a crash: the next run ends what it
tells of. Nothing that isn't marked or noted is ever touched, so runs of others, and other runs of ours, are safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "SPLIT_PPO_RUN"
SHARED_MEMORY = Path("/dev/shm")
# Ray's sockets lie 60 characters below this and may be 107 characters long: the user's TMPDIR is often too long.
HOME = Path("/tmp") / f"split-ppo-{os.getuid()}"
TERM_SECONDS = 2.0


@dataclass(frozen=True)
class Owner:
    """The process that looks after a run; the start time tells it from a later one with the same number."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Owner:
        return cls(pid, start_time(pid) or "")

    @property
    def alive(self) -> bool:
        return self.started != "" and start_time(self.pid) == self.started


@dataclass(frozen=True)
class SharedFile:
    """A file in /dev/shm; the inode tells it from a later one with the same name."""

    name: str
    inode: int

    def remove(self) -> None:
        path = SHARED_MEMORY / self.name
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_ino == self.inode:
                path.unlink()


class Estate:
    """Everything one run owns: a folder with a record, marked processes, noted shared memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id = folder.name
        self._seen: set[SharedFile] = set()

    @classmethod
    def found(cls, *, owner: int) -> Estate:
        """A new one, with its record on disk before anything is started."""
        HOME.mkdir(mode=0o700, exist_ok=True)
        estate = cls(HOME / secrets.token_hex(4))
        estate.folder.mkdir(mode=0o700)
        estate._write(Owner.of(owner))
        return estate

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the run must inherit."""
        return {MARK: self.run_id}

    def processes(self) -> list[int]:
        """Live processes of the run, this one left out."""
        mark = f"{MARK}={self.run_id}".encode()
        return [pid for pid in all_processes() if pid != os.getpid() and mark in environment_of(pid)]

    def note_shared_memory(self) -> None:
        """Look which files in /dev/shm our processes hold, and remember those."""
        unknown = {SharedFile(entry.name, entry.inode()) for entry in os.scandir(SHARED_MEMORY)} - self._seen
        if not unknown:
            return
        held = {inode for pid in self.processes() for inode in held_inodes(pid)}
        fresh = {shared for shared in unknown if shared.inode in held}
        if fresh:
            self._seen |= fresh
            self._note(fresh)

    def end(self, *, patience: float = TERM_SECONDS) -> None:
        """End every process, then remove shared memory and the folder. Safe to call again."""
        self.note_shared_memory()
        end_processes(self.processes, patience=patience)
        for shared in self._seen | set(self._noted()):
            shared.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def owner(self) -> Owner | None:
        try:
            record = json.loads((self.folder / "owner.json").read_text())
            return Owner(int(record["pid"]), str(record["started"]))
        except (OSError, ValueError, KeyError):
            return None

    def _write(self, owner: Owner) -> None:
        (self.folder / "owner.json").write_text(json.dumps({"pid": owner.pid, "started": owner.started}))

    def _note(self, fresh: Iterable[SharedFile]) -> None:
        with (self.folder / "shared-memory").open("a") as notes:
            notes.writelines(f"{shared.inode} {shared.name}\n" for shared in fresh)

    def _noted(self) -> Iterator[SharedFile]:
        with contextlib.suppress(FileNotFoundError):
            for line in (self.folder / "shared-memory").read_text().splitlines():
                inode, _, name = line.partition(" ")
                yield SharedFile(name, int(inode))


def end_abandoned() -> list[str]:
    """End the estates whose owner is gone; returns their ids."""
    if not HOME.is_dir():
        return []
    ended = []
    for folder in sorted(HOME.iterdir()):
        estate = Estate(folder)
        owner = estate.owner()
        if owner is not None and not owner.alive:
            estate.end()
            ended.append(estate.run_id)
    return ended


def end_processes(find: Callable[[], list[int]], *, patience: float) -> None:
    """Ask what `find` finds to end, then make it; again until it finds nothing, because the dying start others."""
    deadline = time.monotonic() + patience
    asked: set[int] = set()
    while alive := find():
        late = time.monotonic() >= deadline
        for pid in alive:
            if late or pid not in asked:
                asked.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        wait_for_any(alive, seconds=max(0.05, min(0.5, deadline - time.monotonic())))


def wait_for_any(pids: Iterable[int], *, seconds: float) -> None:
    """Until one of them has ended, which their pidfds tell."""
    poll, descriptors = select.poll(), []
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(pid))
                poll.register(descriptors[-1], select.POLLIN)
        if descriptors:
            poll.poll(seconds * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def all_processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def environment_of(pid: int) -> set[bytes]:
    """Another user's process, or one that has just ended, has none for us."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def start_time(pid: int) -> str | None:
    """In clock ticks since boot; None for a process that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def held_inodes(pid: int) -> set[int]:
    """Inodes in /dev/shm that a process has open or mapped.

    Not names: a semaphore is mapped under a temporary name before it gets its own.
    """
    prefix = f"{SHARED_MEMORY}/"
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(descriptor.readlink()).startswith(prefix):
                    found.add(descriptor.stat().st_ino)
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if prefix in line:
                found.add(int(line.split()[4]))
    return found
