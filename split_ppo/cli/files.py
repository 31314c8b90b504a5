"""Reading job files for commands: a file that can't be read ends the command with code 2 and every problem in it."""

import sys
from pathlib import Path

import click

from split_ppo.jobfile import JobFile, JobFileError, load_jobs
from split_ppo.placement.plan import Finding

UNREADABLE, FINDINGS = 2, 1


def read_job_file(name: str) -> JobFile:
    """The jobs of a file, or of standard input for `-`; exits with 2 and a sentence if there are none."""
    source = "standard input" if name == "-" else name
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        return load_jobs(text, source)
    except OSError as error:
        _fail(f"{source} can't be read: {(error.strerror or str(error)).lower()}.")
    except UnicodeDecodeError:
        _fail(f"{source} is not a text file in UTF-8.")
    except JobFileError as error:
        _fail(str(error))
    raise AssertionError("unreachable")


def show_findings(findings: tuple[Finding, ...], where: dict[Finding, str], *, err: bool) -> None:
    """The findings, each with its reason and place, then its sentence."""
    if not findings:
        return
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    click.secho(f"{count}: this job would not be started.", fg="red", bold=True, err=err)
    for found in findings:
        click.echo(f"  {click.style(found.reason, fg='red')}  {click.style(where[found], dim=True)}", err=err)
        click.echo(click.wrap_text(found.message, width=100, initial_indent="    ", subsequent_indent="    "), err=err)


def _fail(message: str) -> None:
    click.echo(message, err=True)
    raise SystemExit(UNREADABLE)
