"""Things that take long to make are made once and kept outside the checkout.

Each is a folder whose name ends in a hash of everything it was made from, so a folder that is there is right and is
never changed again. It is made in a temporary folder beside its place and renamed into it: whoever is interrupted
leaves no half-made thing under the final name, and of two who race one makes it while the other waits.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """Where everything lives; `SPLIT_PPO_CACHE` moves it."""
    return Path(os.environ.get("SPLIT_PPO_CACHE", "~/.cache/split-ppo")).expanduser() / "testbed"


def say(text: str) -> None:
    """Tell the person waiting what is going on."""
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def spell(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def digest(*parts: str | bytes | Path) -> str:
    """A short hash of texts and of what stands in files and folders."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
            for file in files:
                sha.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        else:
            sha.update((part.encode() if isinstance(part, str) else part) + b"\0")
    return sha.hexdigest()[:12]


@contextmanager
def locked(path: Path, *, waiting: str = "") -> Iterator[None]:
    """Hold `path` as a lock; the kernel frees it when this process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kept(name: str, make: Callable[[Path], None], *, what: str = "") -> Path:
    """The folder `name` in the cache, made by `make(folder)` if it is not there yet."""
    place = root() / name
    if place.exists():
        return place
    with locked(root() / "locks" / name, waiting=f"another process is making {what or name}, waiting for it"):
        if place.exists():
            return place
        for leftover in root().glob(f".{name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        began = time.monotonic()
        # Named before it is made: an interrupt between the two would otherwise leave it behind. The lock makes it ours.
        temporary = root() / f".{name}.{os.getpid()}"
        try:
            temporary.mkdir()
            temporary.chmod(0o755)
            if what:
                say(f"making {what}, once")
            make(temporary)
            temporary.rename(place)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        if what:
            say(f"made {what} in {spell(time.monotonic() - began)}")
    return place
