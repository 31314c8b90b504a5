"""A box: Linux namespaces of their own for processes, mounts, network, host name and IPC, held open by one `pause`.

A node is a box, and so is the machine the control plane of a cluster with real nodes runs on. Everything that happens in a
box ends with it: when its first process dies the kernel kills every other one (containers too), then drops the
mounts, the interfaces and the firewall rules. That is what makes tear-down after a crash certain.
"""

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NEW_MOUNTS, NEW_HOSTNAME, NEW_IPC, NEW_PIDS, NEW_NETWORK = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
ENTERED = {"ipc": NEW_IPC, "uts": NEW_HOSTNAME, "net": NEW_NETWORK, "mnt": NEW_MOUNTS}

_libc = ctypes.CDLL(None, use_errno=True)
children: dict[int, subprocess.Popen[bytes]] = {}  # long-lived processes this one started and has to bury


def _check(result: int, doing: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{doing}: {os.strerror(code)}")


@contextmanager
def _children_elsewhere(enter: Callable[[], int]) -> Iterator[None]:
    """Have this thread's next child born into another process namespace; the thread itself never moves."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        _check(enter(), "entering the process namespace")
        try:
            yield
        finally:
            _check(_libc.setns(own, NEW_PIDS), "leaving the process namespace")
    finally:
        os.close(own)


@dataclass(frozen=True)
class Box:
    """`pid` is the box's first process as the host sees it."""

    pid: int

    def popen(self, command: Sequence[str | Path], **options: object) -> subprocess.Popen[bytes]:
        """Start `command` in here. It is a direct child: its pid, signals and exit code are the ones of any child."""
        handles = {name: os.open(f"/proc/{self.pid}/ns/{name}", os.O_RDONLY) for name in [*ENTERED, "pid"]}

        def enter() -> None:
            for name, kind in ENTERED.items():
                _check(_libc.setns(handles[name], kind), f"entering the {name} namespace of process {self.pid}")

        try:
            with _children_elsewhere(lambda: int(_libc.setns(handles["pid"], NEW_PIDS))):
                return subprocess.Popen(command, preexec_fn=enter, cwd="/", **options)  # type: ignore[call-overload,no-any-return]
        finally:
            for handle in handles.values():
                os.close(handle)

    def run(self, *command: str | Path, stdin: bytes | None = None) -> str:
        """Run `command` in here to its end and return what it printed."""
        pipe = subprocess.PIPE
        with self.popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as process:
            output, errors = process.communicate(stdin)
        if process.returncode:
            words = " ".join(map(str, command))
            raise RuntimeError(f"`{words}` failed with exit code {process.returncode}: {errors.decode().strip()}")
        return output.decode()

    def shell(self, script: str) -> str:
        return self.run("sh", "-ec", script)


def make(pause: Path, *, hostname: str, log: Path, environment: Mapping[str, str], setup: str = "") -> Box:
    """Make a box and wait until its namespaces are set up; `setup` is shell that runs in it first.

    Mounts made in the box are shared among its own processes (a kubelet needs that) but never reach the host, also
    where the host's own mounts are shared. /run is empty in here, so sockets and state can't meet those of the host.
    """
    script = f"""
        mount --make-rprivate /
        mount --make-rshared /
        mount -t proc proc /proc
        mount -t tmpfs -o mode=755 tmpfs /run
        hostname {hostname}
        ip link set lo up
        {setup}
        echo up
        exec {pause} >/dev/null
    """

    def enter() -> None:
        _check(_libc.unshare(NEW_MOUNTS | NEW_HOSTNAME | NEW_IPC | NEW_NETWORK), "making namespaces")

    with log.open("ab") as errors, _children_elsewhere(lambda: int(_libc.unshare(NEW_PIDS))):
        holder = subprocess.Popen(
            ["sh", "-ec", script],
            preexec_fn=enter,
            cwd="/",
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    children[holder.pid] = holder
    assert holder.stdout is not None
    if holder.stdout.readline() != b"up\n":
        holder.wait()
        raise RuntimeError(f"The namespaces of {hostname} could not be set up: {log.read_text().strip()}")
    holder.stdout.close()
    return Box(holder.pid)
