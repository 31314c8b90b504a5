"""A run: one cluster's folder on disk, and the rules by which nothing outlives it.

- Whoever starts a cluster holds its `lock` while alive. A run nobody holds and that was not left up on purpose
  (`make cluster-up`) was orphaned, and whoever starts a cluster next removes it.
- What a run has outside its folder can be found from the folder alone: processes by the mark in their environment,
  control groups by its path, the host's end of the cable by the number noted in it before it is plugged in.
  So clean-up needs no list of what was made.
"""

import fcntl
import json
import random
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from testbed import cache, cgroups, process

GROUPS = "split-ppo-testbed-"
PORTS_OF_A_RUN = 5
_noting = threading.Lock()
CABLES = "sppo"  # followed by the number of the run's subnet


def runs() -> Path:
    return cache.root() / "runs"


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass
class Run:
    folder: Path
    _lock: IO[str] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def group(self) -> str:
        """The name of its control groups; no other run has it, not one of the same name in another user's cache."""
        return f"{GROUPS}{self.name}-{cache.digest(str(self.folder))[:6]}"

    @property
    def facts(self) -> dict[str, Any]:
        """What another process needs to know about it."""
        try:
            return dict(json.loads((self.folder / "run.json").read_text()))
        except FileNotFoundError:
            return {}

    def note(self, **facts: object) -> None:
        with _noting:
            self._write(self.facts | facts)

    def note_box(self, name: str, pid: int | None) -> None:
        """Nodes start side by side, so this must not lose what another thread notes meanwhile."""
        with _noting:
            facts = self.facts
            self._write(facts | {"boxes": facts.get("boxes", {}) | {name: pid}})

    def _write(self, facts: dict[str, Any]) -> None:
        temporary = self.folder / "run.json.new"
        temporary.write_text(json.dumps(facts))
        temporary.rename(self.folder / "run.json")

    def held(self) -> bool:
        """Take the lock if it is free; False when another living process has it."""
        if self._lock is None:
            file = (self.folder / "lock").open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return False
            self._lock = file
        return True

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def leave_up(self) -> None:
        """Let it outlive this process."""
        self.note(left_up=True)
        self.release()

    @property
    def alive(self) -> bool:
        return self.facts.get("boot") == boot() and bool(process.marked(self.folder))

    def remove(self) -> None:
        """End and remove everything of it; fine to call again after an interruption."""
        process.end(process.marked(self.folder))
        facts = self.facts
        if "subnet" in facts and facts["boot"] == boot():
            unplug(CABLES + str(facts["subnet"]))
            cgroups.remove(self.group)
        shutil.rmtree(self.folder)
        self.release()


def begin(name: str, *, networked: bool) -> Run:
    """Make and hold a new run: with a subnet of its own if it is to have nodes, else with ports on the host's loopback."""
    with cache.locked(runs() / ".lock"):
        network: dict[str, object] = {"subnet": free_subnet()} if networked else {"ports": free_ports(PORTS_OF_A_RUN)}
        folder = runs() / name
        if folder.exists():
            raise RuntimeError(
                f"A cluster {name} is up or being started by another process: end that, or take another name."
            )
        folder.mkdir(parents=True)
        run = Run(folder)
        run.held()
        run.note(boot=boot(), **network)
    return run


def existing() -> Iterator[Run]:
    if runs().exists():
        yield from (Run(folder) for folder in sorted(runs().iterdir()) if folder.is_dir())


def sweep() -> list[str]:
    """Remove every orphaned run; returns their names."""
    swept = []
    with cache.locked(runs() / ".lock"):
        for run in existing():
            if run.facts.get("left_up") and run.alive:
                continue
            if run.held():
                run.remove()
                swept.append(run.name)
    return swept


def finish(run: Run) -> None:
    """Remove a run that this process holds."""
    with cache.locked(runs() / ".lock"):
        run.remove()


def unplug(cable: str) -> None:
    if Path("/sys/class/net", cable).exists():
        subprocess.run(["ip", "link", "delete", cable], check=False, capture_output=True)


def free_ports(count: int) -> list[int]:
    """Ports on the loopback that no process listens on and no other run has been given.

    They lie below the range outgoing connections are given theirs from, so none is taken between now and its use. The
    search starts anywhere: runs of other users, whose folders can't be seen, are then met only by great bad luck.
    """
    taken = {port for run in existing() for port in run.facts.get("ports", [])}
    free = []
    first = random.randrange(20100, 31000)
    for port in [*range(first, 32000), *range(20100, first)]:
        if port not in taken:
            with socket.socket() as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    attempt.bind(("127.0.0.1", port))
                except OSError:
                    continue
            free.append(port)
            if len(free) == count:
                return free
    raise RuntimeError("No free ports are left between 20100 and 32000 on this machine.")


def free_subnet() -> int:
    """A number n for which 172.30.n.0/24 is nobody's on this host."""
    routes = json.loads(subprocess.run(["ip", "-json", "route"], check=True, capture_output=True).stdout)
    taken = {str(route["dst"]) for route in routes} | {str(run.facts.get("subnet")) for run in existing()}
    links = [link.name for link in Path("/sys/class/net").iterdir()]
    for number in range(256):
        free = str(number) not in taken and CABLES + str(number) not in links
        if free and not any(network.startswith(f"172.30.{number}.") for network in taken):
            return number
    raise RuntimeError("All of 172.30.0.0/16 is in use on this machine: run `make cluster-down`, or free part of it.")
