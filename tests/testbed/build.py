"""The programs of the test bed, compiled from pinned Go modules.

Every program is one folder under go/ with its go.mod and go.sum. What comes out of a build is a folder in the cache: the
binary, the names it can be called by, and the manifests its own module ships (CRDs, roles), so that a running test bed
needs neither Go nor the module cache. The key is every input: the folder's files, the flags, the Go version, the platform.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache as once
from pathlib import Path

from testbed import cache, toolchain

SOURCES = Path(__file__).parent / "go"


@dataclass(frozen=True)
class Program:
    name: str
    package: str  # what to compile, "." for a main of our own
    what: str
    names: tuple[str, ...] = ()  # what a multi-call binary is called by
    stamp: str = ""  # the Go package whose gitVersion tells clients the version
    module: str = ""  # whose version that is, and whose manifests are kept
    manifests: dict[str, str] = field(default_factory=dict, hash=False)  # name in the cache -> folder in the module

    @property
    def source(self) -> Path:
        return SOURCES / self.name

    @property
    def version(self) -> str:
        """As go.mod pins it: the one place a version stands."""
        pinned = re.search(
            rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", (self.source / "go.mod").read_text(), re.M
        )
        if pinned is None:
            raise LookupError(f"{self.source / 'go.mod'} does not require {self.module}.")
        return pinned[1]


KUBE = Program(
    name="kube",
    package=".",
    what="Kubernetes, etcd and CoreDNS (about 7 minutes on 2 cores)",
    names=(
        *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
        *("kubelet", "kube-proxy", "coredns", "gpu-device-plugin"),
    ),
    stamp="k8s.io/component-base/version",
    module="k8s.io/kubernetes",
)
KUBERAY = Program(
    name="kuberay",
    package="github.com/ray-project/kuberay/ray-operator",
    what="KubeRay's operator (about 2 minutes on 2 cores)",
    module="github.com/ray-project/kuberay/ray-operator",
    manifests={"crds": "config/crd/bases", "rbac": "config/rbac"},
)
KWOK = Program(
    name="kwok",
    package="sigs.k8s.io/kwok/cmd/kwok",
    what="KWOK (about 3 minutes on 2 cores)",
    module="sigs.k8s.io/kwok",
    manifests={"stages": "kustomize/stage", "rbac": "kustomize/rbac"},
)
KUEUE = Program(
    name="kueue",
    package="sigs.k8s.io/kueue/cmd/kueue",
    what="Kueue (about 4 minutes on 2 cores)",
    module="sigs.k8s.io/kueue",
    manifests={"config": "config"},
)
PAUSE = Program(name="pause", package=".", what="the pause program")


@dataclass(frozen=True)
class Built:
    """A program ready to run."""

    folder: Path

    def command(self, name: str) -> Path:
        return self.folder / "bin" / name

    def manifests(self, name: str) -> Path:
        return self.folder / name


def flags(program: Program) -> list[str]:
    link = "-s -w"
    if program.stamp:
        major, minor, _ = program.version.removeprefix("v").split(".", 2)
        values = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
        link += "".join(f" -X {program.stamp}.{key}={value}" for key, value in values.items())
    return ["-trimpath", f"-ldflags={link}"]


@once
def go() -> toolchain.Go:
    wanted = re.search(r"^go (\S+)", (KUBE.source / "go.mod").read_text(), re.M)
    assert wanted is not None
    return toolchain.find(wanted[1])


def key(program: Program) -> str:
    inputs = [*flags(program), program.package, go().version, platform.system(), platform.machine()]
    return f"{program.name}-{cache.digest(program.source, *inputs)}"


def if_built(program: Program) -> Built | None:
    folder = cache.root() / key(program)
    return Built(folder) if folder.exists() else None


def built(program: Program) -> Built:
    """`program`, compiled now if this is the first time."""
    options = flags(program)

    def make(folder: Path) -> None:
        (folder / "bin").mkdir()
        binary = folder / "bin" / program.name
        compile_into(binary, [*options, program.package], source=program.source)
        for name in program.names:
            (folder / "bin" / name).symlink_to(program.name)
        if program.manifests:
            module = Path(go().output("list", "-m", "-f", "{{.Dir}}", program.module, folder=program.source))
            for name, path in program.manifests.items():
                shutil.copytree(module / path, folder / name, copy_function=shutil.copyfile)
                for copied in [folder / name, *(folder / name).rglob("*")]:
                    copied.chmod(0o755 if copied.is_dir() else 0o644)

    return Built(cache.kept(key(program), make, what=program.what))


def compile_into(binary: Path, arguments: list[str], *, source: Path) -> None:
    """Run the compiler in a process group of its own, so that an interrupt ends all of it."""
    command = ["nice", "-n", "5", str(go().command), "build", "-o", str(binary), *arguments]
    compiler = None
    try:
        with interrupt_later():
            compiler = subprocess.Popen(command, cwd=source, env=go().environment(), start_new_session=True)
        code = compiler.wait()
    except BaseException:
        if compiler:
            with suppress(ProcessLookupError):  # the interrupt may have met it before it had a group of its own
                os.killpg(compiler.pid, signal.SIGTERM)
            compiler.wait()
        raise
    if code:
        raise RuntimeError(f"Compiling {source.name} failed (exit code {code}); the compiler's words are above.")


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Let what happens inside be done before Ctrl-C is: a process that was started but not yet known can't be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts the main thread alone
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if arrived:
        raise KeyboardInterrupt
