"""A few steps of a job, as it is and on one pool: two sizes of every pool, so that advice has little to assume.

Each is a `split-ppo run` of its own, started as a user would, so that nothing of it stays behind.
"""

import subprocess
import sys
from itertools import chain, count
from pathlib import Path

import click

from split_ppo.cli.files import UNREADABLE, read_job_file


def probe(job: str, *, steps: int, output: Path | None) -> list[Path]:
    """The folders of the runs; ends the command if one fails."""
    item = read_job_file(job).jobs[0].job
    root = output or _unused(Path("runs") / f"probe-{item.metadata.name}")
    if root.exists():
        click.echo(
            f"{root} is there already: name another folder with --output-dir, or advise on the runs in it.", err=True
        )
        raise SystemExit(UNREADABLE)
    folders = []
    for name, options in (("as-it-is", []), ("one-pool", ["--mode", "Colocated"])):
        if name == "one-pool" and item.spec.placement.mode == "Colocated":
            continue
        folder = root / name
        click.echo(f"Measuring {steps} steps of {job} {name.replace('-', ' ')}.", err=True)
        command = [
            sys.executable,
            "-m",
            "split_ppo",
            "run",
            job,
            "--output",
            str(folder),
            "--steps",
            str(steps),
            *options,
        ]
        code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
        if code:
            click.echo(f"The probe failed; {folder / 'run.log'} knows why.", err=True)
            raise SystemExit(1)
        folders.append(folder)
    return folders


def _unused(wanted: Path) -> Path:
    """The folder, numbered so that no probe overwrites another."""
    numbered = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    return next(folder for folder in chain([wanted], numbered) if not folder.exists())
