"""What a run on this machine owns outside its output folder, so that it can always be found and ended.

Three things: processes, which descend from the run's owner and carry its id in their environment; files in /dev/shm,
which vLLM and multiprocessing name at random, so they are noted down when one of our processes is seen to hold them;
and a short folder under /tmp with Ray's sockets and logs and the record of all this. The record outlives a crash: the
next run ends what it tells of. Nothing else is ever touched, so runs of others, and other runs of ours, are safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from split_ppo_trainer import sockets

MARK = "SPLIT_PPO_RUN"
SHARED_MEMORY = Path("/dev/shm")
# Ray's sockets lie 60 characters below this and may be 107 characters long: the user's TMPDIR is often too long.
HOME = Path("/tmp") / f"split-ppo-{os.getuid()}"
TERM_SECONDS = 2.0


@dataclass(frozen=True)
class Process:
    """One that runs or ran; the start time tells it from a later one with the same number."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process:
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


def shared_files() -> set[SharedFile]:
    """All there are."""
    return {SharedFile(entry.name, entry.inode()) for entry in os.scandir(SHARED_MEMORY)}


def temporary_in(folder: Path) -> dict[str, str]:
    """The variables that bring Ray's, verl's and vLLM's temporary files below this folder.

    torch's compiled kernels go to a folder that stays: they are worth keeping.
    """
    kernels = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"{tempfile.gettempdir()}/torchinductor_{os.getuid()}"
    return {
        "TMPDIR": str(folder),
        "RAY_TMPDIR": str(folder),
        "VLLM_RPC_BASE_PATH": str(folder),
        sockets.PREFIX: f"{folder}/",
        "TORCHINDUCTOR_CACHE_DIR": kernels,
    }


class Estate:
    """Everything one run owns: a folder with a record, marked processes, noted shared memory."""

    def __init__(self, folder: Path, *, others: frozenset[SharedFile] = frozenset()) -> None:
        """`others`: shared memory that is known not to be the run's."""
        self.folder, self._others = folder, others
        self.run_id = folder.name
        self._seen: set[SharedFile] = set()
        self._makers: set[Process] = set()

    @classmethod
    def found(cls, *, owner: int) -> Estate:
        """A new one, with its record on disk before anything is started."""
        HOME.mkdir(mode=0o700, exist_ok=True)
        run_id = secrets.token_hex(4)
        nascent = HOME / f".{run_id}"
        nascent.mkdir(mode=0o700)
        (nascent / "owner.json").write_text(json.dumps(asdict(Process.of(owner))))
        return cls(nascent.rename(HOME / run_id), others=frozenset(shared_files()))

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the run must inherit."""
        return {MARK: self.run_id, **temporary_in(self.folder)}

    def processes(self) -> list[int]:
        """Live processes of the run, its owner and this one left out.

        While the owner lives they are its descendants: it adopts what loses its parent. Afterwards they are known by
        the mark, or, where Ray and vLLM have written their titles over it, by the logs that they write in our folder.
        """
        parents, owner = process_parents(), self.owner()
        mark = f"{MARK}={self.run_id}".encode()
        roots = {pid for pid in parents if mark in environment_of(pid)}
        if owner is not None and owner.alive:
            roots.add(owner.pid)
        else:
            roots |= {pid for pid in parents if pid not in roots and writes_below(pid, self.folder)}
        left_out = {os.getpid(), owner.pid if owner is not None else 0}
        return sorted(with_descendants(roots, parents) - left_out)

    def note_shared_memory(self) -> None:
        """Look which files in /dev/shm our processes hold, and remember those."""
        unknown = shared_files() - self._others - self._seen
        if not unknown:
            return
        # Every weight sync makes a file, and looking at all processes takes a tenth of a second. Mostly a process made it that
        # has made files before: only where none of them holds it, all others are looked at.
        fresh = self._held(unknown, [maker.pid for maker in self._makers if maker.alive])
        if fresh != unknown:
            fresh |= self._held(unknown - fresh, self.processes())
        if fresh:
            self._seen |= fresh
            self._note(fresh)

    def _held(self, wanted: set[SharedFile], pids: Iterable[int]) -> set[SharedFile]:
        """Those of the wanted files that the processes hold."""
        found: set[SharedFile] = set()
        for pid in pids:
            maker, held = Process.of(pid), held_inodes(pid)
            if mine := {shared for shared in wanted - found if shared.inode in held}:
                found |= mine
                self._makers.add(maker)
            if found == wanted:
                break
        return found

    def end(self, *, patience: float = TERM_SECONDS) -> None:
        """End every process, then remove shared memory and the folder. Safe to call again."""
        self.note_shared_memory()
        end_processes(self.processes, patience=patience)
        for shared in self._seen | set(self._noted()):
            shared.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def owner(self) -> Process | None:
        try:
            record = json.loads((self.folder / "owner.json").read_text())
            return Process(int(record["pid"]), str(record["started"]))
        except (OSError, ValueError, KeyError):
            return None

    def _note(self, fresh: Iterable[SharedFile]) -> None:
        with (self.folder / "shared-memory").open("a") as notes:
            notes.writelines(f"{shared.inode} {shared.name}\n" for shared in fresh)

    def _noted(self) -> Iterator[SharedFile]:
        with contextlib.suppress(FileNotFoundError):
            for line in (self.folder / "shared-memory").read_text().splitlines():
                inode, _, name = line.partition(" ")
                yield SharedFile(name, int(inode))


def end_abandoned() -> list[str]:
    """End the estates whose owner is gone or was half removed; returns their ids."""
    if not HOME.is_dir():
        return []
    ended = []
    for folder in sorted(HOME.glob("[!.]*")):
        estate = Estate(folder)
        owner = estate.owner()
        if owner is None or not owner.alive:
            estate.end()
            ended.append(estate.run_id)
    return ended


def end_processes(find: Callable[[], list[int]], *, patience: float) -> None:
    """Ask what `find` finds to end, then make it; again until it finds nothing, because the dying start others.

    A dying process loses what it is found by some time before it is gone, so those once found are waited for.
    """
    deadline = time.monotonic() + patience
    asked: dict[int, str | None] = {}
    while alive := {*find(), *(pid for pid, started in asked.items() if started and start_time(pid) == started)}:
        late = time.monotonic() >= deadline
        for pid in alive:
            if late or pid not in asked:
                asked[pid] = start_time(pid)
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


def process_parents() -> dict[int, int]:
    """This user's processes and their parents; zombies have ended."""
    found = {}
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                fields = stat_fields(int(entry.name))
                if fields and fields[0] not in "ZX":
                    found[int(entry.name)] = int(fields[1])
    return found


def with_descendants(roots: set[int], parents: Mapping[int, int]) -> set[int]:
    found = set(roots)
    while fresh := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= fresh
    return found


def writes_below(pid: int, folder: Path) -> bool:
    """Whether a process has a file in the folder open for writing. Reading a log makes nobody ours."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(descriptor.readlink()).startswith(f"{folder}/") and descriptor.lstat().st_mode & 0o200:
                    return True
    return False


def environment_of(pid: int) -> set[bytes]:
    """Another user's process, or one that has just ended, has none for us."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def start_time(pid: int) -> str | None:
    """In clock ticks since boot; None for a process that is gone or a zombie."""
    fields = stat_fields(pid)
    return None if not fields or fields[0] in "ZX" else fields[19]


def stat_fields(pid: int) -> list[str]:
    """What /proc says behind the name: state, parent, …; nothing for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


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
