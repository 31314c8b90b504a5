"""Container images without a registry: built by buildah from real Dockerfiles, kept as archives, loaded into nodes.

An image is a folder in the cache with one file, `image.tar`. Its tag ends in the hash of what it was built from, so a
node never runs yesterday's image under today's name. Nothing large is copied into one: the Python packages Ray pods
need are a folder of the machine that pods mount.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from testbed import build, cache

HERE = Path(__file__).parent
SUITE = "bookworm"
PYTHON = "3.11"  # what that release of Debian has; mounted packages must be for it
PACKAGES = ("python3", "libgomp1", "libnuma1", "procps", "ca-certificates")
MIRROR = os.environ.get("SPLIT_PPO_DEBIAN_MIRROR", "http://deb.debian.org/debian")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"  # where Debian has them
NEEDLESS = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/lib/apt/lists",
    "var/cache/apt",
    "var/cache/debconf",
)
# Of the repository, what its Dockerfile copies.
OPERATOR_PARTS = (
    *("Dockerfile", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tools/sbom.py"),
    *("split_ppo", "operator", "trainer_image/split_ppo_trainer"),
)


@dataclass(frozen=True)
class Image:
    tag: str
    archive: Path


def make(
    name: str,
    context: Path,
    *,
    base: Image | None = None,
    files: Mapping[str, Path] | None = None,
    what: str = "",
    stage: str = "",
    stages: Mapping[str, Image] | None = None,
) -> Image:
    """The image of `context`/Dockerfile, built now if it never was; `files` are put beside the Dockerfile.

    With a `base` the Dockerfile starts `ARG BASE` / `FROM ${BASE}`. `stage` builds only up to the stage of that name; `stages`
    are such images, by the ARG that the Dockerfile takes them from.
    """
    extra = dict(files or {})
    taken = {**({"BASE": base} if base else {}), **(stages or {})}
    inputs = [part for item in sorted(extra.items()) for part in item]
    inputs += [image.tag for image in taken.values()] or [""]
    inputs += [stage] if stage else []
    key = cache.digest(context, *inputs)
    tag = f"localhost/split-ppo/{name}:{key}"
    return _make(name, key, context, taken=taken, files=extra, tag=tag, what=what, stage=stage)


def _make(
    name: str,
    key: str,
    context: Path,
    *,
    files: Mapping[str, Path],
    tag: str,
    taken: Mapping[str, Image] | None = None,
    what: str = "",
    stage: str = "",
) -> Image:
    def build_it(folder: Path) -> None:
        work = folder / "work"
        shutil.copytree(context, work / "context", ignore=shutil.ignore_patterns("__pycache__"))
        for target, source in files.items():
            shutil.copyfile(source, work / "context" / target)
            shutil.copymode(source, work / "context" / target)
        _buildah(work, tag, taken or {}, stage, output=folder / "image.tar")
        shutil.rmtree(work)

    folder = cache.kept(f"image-{name}-{key}", build_it, what=what or f"the image {name}")
    return Image(tag, folder / "image.tar")


def _buildah(work: Path, tag: str, taken: Mapping[str, Image], stage: str, *, output: Path) -> None:
    """Build in a store of its own, which is thrown away, and in mount namespaces of its own, which end with it."""
    store = ["--root", f"{work}/store", "--runroot", f"{work}/run", "--storage-driver", "overlay"]
    given = [f"--build-arg={name}=oci-archive:{image.archive}" for name, image in taken.items()]
    given += [f"--target={stage}"] if stage else []
    options = ["--isolation", "chroot", "--network", "host", *_certificates(), *given]
    bud = ["buildah", *store, "bud", *options, "--tag", tag, f"{work}/context"]
    push = ["buildah", *store, "push", "--disable-compression", tag, f"oci-archive:{output}:{tag}"]
    for command in (bud, push):
        _run_apart(command, doing=f"building {tag}")


def _certificates() -> list[str]:
    """What this machine trusts, for builds that fetch packages: behind a proxy of its own it may be more than everybody does."""
    bundle = Path(os.environ.get("SSL_CERT_FILE", ""))
    return ["--volume", f"{bundle.resolve()}:{CERTIFICATES}:ro"] if bundle.is_file() else []


def _run_apart(command: list[str], *, doing: str) -> None:
    """Run with mounts that nobody else sees and that are gone afterwards."""
    done = subprocess.run(["unshare", "--mount", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{doing} failed: `{' '.join(command)}` said\n{done.stdout[-4000:]}")


@once
def base() -> Image:
    """Debian with Python."""
    key = cache.digest(HERE / "base", SUITE, *PACKAGES)
    tag = f"localhost/split-ppo/base:{key}"
    if (cache.root() / f"image-base-{key}").exists():
        return _make("base", key, HERE / "base", files={}, tag=tag)
    return _make("base", key, HERE / "base", files={"rootfs.tar": _root_file_system()}, tag=tag)


def _root_file_system() -> Path:
    def bootstrap(folder: Path) -> None:
        target = folder / "root"
        options = ["--variant=minbase", f"--include={','.join(PACKAGES)}"]
        _run_apart(["debootstrap", *options, SUITE, str(target), MIRROR], doing="making a Debian")
        for path in NEEDLESS:
            shutil.rmtree(target / path, ignore_errors=True)
        subprocess.run(["tar", "--create", "--file", folder / "rootfs.tar", "--directory", target, "."], check=True)
        shutil.rmtree(target)

    what = f"a root file system from Debian's packages ({SUITE}, with Python {PYTHON}; about a minute)"
    return cache.kept(f"rootfs-{cache.digest(SUITE, *PACKAGES)}", bootstrap, what=what) / "rootfs.tar"


@once
def pause() -> Image:
    program = build.built(build.PAUSE).command("pause")
    key = cache.digest(HERE / "pause", program)
    return _make("pause", key, HERE / "pause", files={"pause": program}, tag="localhost/split-ppo/pause:1")


@dataclass(frozen=True)
class RayPods:
    """What a Ray pod is made of here: the image, and the folder of packages to mount at its PYTHONPATH."""

    image: Image
    packages: Path


@once
def ray_pods() -> RayPods:
    return RayPods(make("ray", HERE / "ray", base=base()), ray_packages())


@once
def operator() -> Image:
    """The operator's own, from the Dockerfile that is shipped; its packages apart, because they seldom change."""
    what = "the operator's packages, as an image"
    with _of_repository("Dockerfile", "operator/requirements.txt") as context:
        packages = make("operator-packages", context, base=base(), stage="packages", what=what)
    with _of_repository(*OPERATOR_PARTS) as context:
        stages = {"PACKAGES": packages}
        return make("operator", context, base=base(), stages=stages, what="the operator's image")


@contextmanager
def _of_repository(*parts: str) -> Iterator[Path]:
    """A build context with only these files and folders in it."""
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            source, target = HERE.parents[2] / part, Path(folder) / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(source, target)
        yield Path(folder)


def ray_packages() -> Path:
    """Ray and what it needs, nothing else: 300 MB where the trainer's whole environment has 6.8 GB."""
    requirements = HERE / "ray" / "requirements.txt"

    def install(folder: Path) -> None:
        compiled = ["--compile-bytecode"] if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))) else []
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", PYTHON, *compiled]
        command = [sys.executable, "-m", "uv", "pip", "install", *options, "--target", str(folder)]
        subprocess.run([*command, "--requirement", str(requirements)], check=True)

    return cache.kept(f"ray-packages-{cache.digest(requirements, PYTHON)}", install, what="Ray's Python packages")
