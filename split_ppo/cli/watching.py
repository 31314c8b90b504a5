"""Following a job to its end: a live drawing on a terminal, a line per change elsewhere.

By asking again every second: it needs the right to get the job and nothing else, and an API server that is away for a while
only costs a while.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.job_drawing import draw_job, phase_line
from split_ppo.cli.jobs import JobOnCluster, get_job
from split_ppo.cli.refusals import ClusterError

FAILED = 1
_SECONDS = 1.0


def looks(server: ApiServer, name: str) -> Iterator[JobOnCluster | ClusterError]:
    """The job again and again; an API server that can't be reached is said, not the end."""
    while True:
        try:
            yield get_job(server, name)
        except ClusterError as error:
            if error.status and error.status < 500:
                raise
            yield error
        time.sleep(_SECONDS)


def draw_until_the_end(server: ApiServer, name: str) -> int:
    """The live drawing; returns the exit code, which is the job's success."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        return tell_until_the_end(server, name)
    drawing = ""
    with Live(console=console, auto_refresh=False) as live:
        for found in looks(server, name):
            if isinstance(found, ClusterError):
                live.update(Text.from_ansi(f"{drawing}\n{found} Trying again."), refresh=True)
                continue
            drawing = draw_job(found, datetime.now(UTC))
            live.update(Text.from_ansi(drawing), refresh=True)
            if found.finished:
                return 0 if found.phase == "Succeeded" else FAILED
    raise AssertionError("unreachable")


def tell_until_the_end(server: ApiServer, name: str) -> int:
    """A line for each change; returns the exit code."""
    told = ""
    for found in looks(server, name):
        line = f"{found} Trying again." if isinstance(found, ClusterError) else phase_line(found, datetime.now(UTC))
        if line != told:
            click.echo(line)
            told = line
        if isinstance(found, JobOnCluster) and found.finished:
            return 0 if found.phase == "Succeeded" else FAILED
    raise AssertionError("unreachable")
