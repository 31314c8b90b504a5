"""A few steps of a job, as it is and on one pool: two sizes of every pool, so that advice has little to assume.

Each is a `split-ppo run` of its own, started as a user would, so that nothing of it stays behind.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import click

from split_ppo.cli.files import read_job_file


def probe(job: str, *, steps: int, output: Path | None) -> list[Path]:
    """The folders of the runs; ends the command if one fails."""
    item = read_job_file(job).jobs[0].job
    root = output or Path("runs") / f"probe-{item.metadata.name}"
    folders = []
    for name, options in (("as-it-is", []), ("one-pool", ["--mode", "Colocated"])):
        if name == "one-pool" and item.spec.placement.mode == "Colocated":
            continue
        folder = root / name
        shutil.rmtree(folder, ignore_errors=True)
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
