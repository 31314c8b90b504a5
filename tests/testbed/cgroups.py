"""The control groups of the nodes: one tree per node, named after the run, removed with it.

Both layouts are handled: one mount per controller (v1) and the unified one (v2). A kubelet wants its root to exist with
every controller usable in it; on v1 a new cpuset group starts empty and nothing can run in it until it is filled.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from testbed import process

MOUNT = Path("/sys/fs/cgroup")


def unified() -> bool:
    return (MOUNT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """The folders that each are the root of a hierarchy; on v1 links like `cpu,cpuacct` are left out."""
    if unified():
        return [MOUNT]
    return [folder for folder in MOUNT.iterdir() if folder.is_dir() and not folder.is_symlink()]


def make(name: str) -> None:
    """Make the group `name` (may have parents, as in `run/node-1`) in every hierarchy."""
    for top in hierarchies():
        group = top
        for part in Path(name).parts:
            if unified():
                controllers = (group / "cgroup.controllers").read_text().split()
                (group / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))
            parent, group = group, group / part
            group.mkdir(exist_ok=True)
            if not unified():
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    if (group / setting).exists():
                        (group / setting).write_text((parent / setting).read_text())


def found(name: str) -> list[Path]:
    """The group in every hierarchy that has it."""
    return [top / name for top in hierarchies() if (top / name).is_dir()]


def _inside_out(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def remove(name: str) -> None:
    """Remove the group with those inside it, and first whatever still runs in them."""
    for group in found(name):
        for folder in _inside_out(group):
            process.end(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
        for folder in _inside_out(group):
            folder.rmdir()
