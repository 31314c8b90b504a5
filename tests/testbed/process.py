"""One component of the test bed: a program started on the host or in a box, with its log, stopped and started again at will.

Its command is written beside its log, so another Python process (the next `make`) can stop and start it too. Every
process carries the run it belongs to in its environment: that mark, not a list somebody might not have had the time to
write, is how a later run finds what a killed one left behind.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.box import Box, children
from testbed.needs import SYSTEM_PATH

MARK = "SPLIT_PPO_TESTBED_RUN"


def surroundings(run: Path) -> dict[str, str]:
    """The environment of a component: the mark, and nothing a developer's shell could change its behaviour by.

    Most are Go's, small and short-lived: collecting their garbage less often costs some memory and saves much time.
    """
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
    path = os.environ.get("PATH", os.defpath) + ":" + SYSTEM_PATH  # nft and iptables live there
    return kept | {"PATH": path, "GOGC": "400", MARK: str(run)}


def started_at(pid: int) -> int | None:
    """When the kernel started `pid`, in its own ticks; None if it is gone or only waits to be buried."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(fields[18])


def marked(run: Path) -> list[int]:
    """Every living process of a run."""
    wanted = f"{MARK}={run}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in environment and started_at(int(folder.name)) is not None:
                found.append(int(folder.name))
    return found


def wait_ended(pids: Iterable[int], *, within: float) -> list[int]:
    """Wait until all of `pids` have ended; returns those that have not.

    Meanwhile every child of ours that ends is buried, whichever it is: the first process of a box can't end before all
    others in it are, and only their parent can bury them.
    """
    awaited = set(pids)
    poll = select.poll()
    handles: dict[int, int] = {}
    for pid in awaited | set(children):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            awaited.discard(pid)
            continue
        handles[handle] = pid
        poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + within
    try:
        while awaited and (ended := poll.poll(max(0.0, deadline - time.monotonic()) * 1000)):
            for handle, _ in ended:
                poll.unregister(handle)
                awaited.discard(handles[handle])
                if child := children.pop(handles[handle], None):
                    child.wait()
    finally:
        for handle in handles:
            os.close(handle)
    return sorted(awaited)


def end(pids: Iterable[int], *, signal_first: int = signal.SIGKILL, within: float = 20.0) -> None:
    """End processes and wait for it; whoever ignores a polite signal for `within` seconds is killed."""
    pids = list(pids)
    for number in dict.fromkeys((signal_first, signal.SIGKILL)):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        pids = wait_ended(pids, within=within)
        if not pids:
            return
    raise RuntimeError(f"The processes {pids} did not end within {within:.0f} s of being killed.")


@dataclass
class Process:
    """`folder` holds `<name>.json` (what was started) and `<name>.log` (what it said, over all its lives)."""

    name: str
    command: list[str]
    run: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    box: int | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def record(self) -> Path:
        return self.folder / f"{self.name}.json"

    @property
    def pid(self) -> int | None:
        """Its process if it is alive."""
        try:
            written = json.loads(self.record.read_text())
        except FileNotFoundError:
            return None
        pid = int(written["pid"])
        return pid if started_at(pid) == written["started"] else None

    def start(self) -> None:
        if self.pid is not None:
            return
        environment = surroundings(self.run) | self.environment
        options: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,
        }
        with self.log.open("ab") as log:
            if self.box is None:
                child = subprocess.Popen(self.command, stdout=log, env=environment, cwd=self.run, **options)  # type: ignore[call-overload]
            else:
                child = Box(self.box).popen(self.command, stdout=log, env=environment, **options)
        children[child.pid] = child
        written = {"name": self.name, "pid": child.pid, "started": started_at(child.pid), "command": self.command}
        self.record.write_text(json.dumps(written | {"environment": self.environment, "box": self.box}))

    def stop(self, *, within: float = 20.0) -> None:
        """Ask it to end, and see that it does."""
        if (pid := self.pid) is not None:
            end([pid], signal_first=signal.SIGTERM, within=within)

    def kill(self) -> None:
        """End it without a word, as a crash would."""
        if (pid := self.pid) is not None:
            end([pid])

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        pid = self.pid
        if pid is None:
            raise RuntimeError(f"{self.name} is not running; its last words are in {self.log}.")
        os.kill(pid, number)

    def ended(self, *, within: float) -> bool:
        """Whether it ends within so many seconds: how a start-up waits without missing an early death."""
        pid = self.pid
        return pid is None or not wait_ended([pid], within=within)

    def last_words(self, lines: int = 15) -> str:
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(text[-lines:])

    @classmethod
    def load(cls, record: Path, *, run: Path) -> "Process":
        written: Mapping[str, object] = json.loads(record.read_text())
        return cls(
            name=str(written["name"]),
            command=list(written["command"]),  # type: ignore[call-overload]
            run=run,
            folder=record.parent,
            environment=dict(written["environment"]),  # type: ignore[call-overload]
            box=written["box"],  # type: ignore[arg-type]
        )
