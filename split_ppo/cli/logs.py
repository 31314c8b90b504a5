"""`split-ppo logs`: what driver and workers say, by pool; from Ray while it is there, from the job's volume afterwards."""

import queue
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from split_ppo.api.status import AttemptStatus
from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.job_drawing import phase_line
from split_ppo.cli.jobs import JobOnCluster, get_job
from split_ppo.cli.log_lines import attributed, shown
from split_ppo.cli.ray_logs import RayLog, find_ray_log
from split_ppo.cli.refusals import ClusterError
from split_ppo.cli.watching import looks

POOLS = ("driver", "actor", "critic", "reward")


@click.command("logs")
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, through retries.")
@click.option(
    "--pool", "pools", type=click.Choice(POOLS), multiple=True, help="Only these; may be given several times."
)
@click.option("--attempt", "number", type=click.IntRange(min=1), help="This attempt instead of the last one.")
@on_cluster
def command(server: ApiServer, name: str, follow: bool, pools: tuple[str, ...], number: int | None) -> None:
    """Print what driver and workers of the SplitPPOJob NAME say, each line with its pool.

    While its Ray cluster is there the log comes from Ray. Afterwards it is read from the volume of storage.checkpoints, by
    a pod that is made for it and removed again; without storage only the last words are left.

    \b
    Examples:
      split-ppo logs train -f
      split-ppo logs train --pool critic
      split-ppo logs train --attempt 1

    Needs the right to get splitppojobs and secrets, list pods and get services/proxy; for an ended job to create, get and
    delete pods and get pods/log. The role `edit` has all of them.

    Exit code: 0; 1 when there is no log, with -f also when the job has failed.
    """
    if follow and number is not None:
        raise click.UsageError("-f follows the last attempt; leave --attempt out.")
    printer = _Printer(pools)
    found = get_job(server, name)
    if follow and not found.finished:
        raise SystemExit(_follow(server, name, printer))
    _print_attempt(server, found, _chosen(found, number), printer)


class _Printer:
    """Prints the lines of the pools asked for."""

    def __init__(self, pools: tuple[str, ...]) -> None:
        self.pools = pools

    def __call__(self, pool: str, text: str) -> None:
        if not self.pools or pool in self.pools:
            click.echo(shown(pool, text))


def _chosen(found: JobOnCluster, number: int | None) -> AttemptStatus:
    attempts = {a.number: a for a in found.status.attempts or ()}
    if not attempts:
        raise ClusterError(f"There is no log yet. {phase_line(found, datetime.now(UTC))}")
    if number is not None and number not in attempts:
        kept = ", ".join(map(str, sorted(attempts)))
        raise ClusterError(f"{found.name} has no attempt {number}; there are {kept}.")
    return attempts[number or max(attempts)]


def _print_attempt(server: ApiServer, found: JobOnCluster, attempt: AttemptStatus, printer: _Printer) -> None:
    log = find_ray_log(server, attempt)
    if log is not None:
        for pool, text in attributed(log.lines(follow=False), log.pools):
            printer(pool, text)
    elif attempt.submission_id is None:
        raise ClusterError(f"Attempt {attempt.number} was not started yet. {phase_line(found, datetime.now(UTC))}")
    elif found.job.spec.storage.checkpoints is not None:
        from split_ppo.cli.stored_log import stored_lines

        for pool, text in stored_lines(server, found.job, attempt=attempt.number):
            printer(pool, text)
    else:
        _last_words(found, attempt)


def _last_words(found: JobOnCluster, attempt: AttemptStatus) -> None:
    words = f" Its last words: {attempt.message}" if attempt.message else ""
    raise ClusterError(
        f"The Ray cluster of attempt {attempt.number} of {found.name} is gone, and its log with it: set storage.checkpoints, "
        f"and logs stay on that volume, or runPolicy.cleanup: Workers, and the head stays.{words}"
    )


def _follow(server: ApiServer, name: str, printer: _Printer) -> int:
    """Attempt after attempt until the job has ended; returns the exit code, which is the job's success."""
    told, printed = "", dict[int, int]()
    for found in looks(server, name):
        if isinstance(found, ClusterError):
            line = f"{found} Trying again."
        elif found.finished:
            attempt = found.attempt
            if attempt is not None and attempt.number not in printed and found.job.spec.storage.checkpoints is not None:
                _print_attempt(server, found, attempt, printer)  # it was over before we could listen
            click.echo(phase_line(found, datetime.now(UTC)), err=True)
            return 0 if found.phase == "Succeeded" else 1
        else:
            attempt = found.attempt
            log = find_ray_log(server, attempt)
            if attempt is not None and log is not None:
                lines = _stream(server, name, attempt, log, skip=printed.get(attempt.number, 0))
                for pool, text in attributed(lines, log.pools):
                    printed[attempt.number] = printed.get(attempt.number, 0) + 1
                    printer(pool, text)
                continue
            line = phase_line(found, datetime.now(UTC))
        if line != told:
            click.echo(line, err=True)
            told = line
    raise AssertionError("unreachable")


def _stream(server: ApiServer, name: str, attempt: AttemptStatus, log: RayLog, *, skip: int) -> Iterator[str]:
    """The log until the attempt is over or the connection is lost; what was printed before a lost connection is left out."""
    lines: queue.Queue[str | ClusterError | None] = queue.Queue()

    def read() -> None:
        try:
            for line in log.lines(follow=True):
                lines.put(line)
            lines.put(None)
        except ClusterError as error:
            lines.put(error)

    threading.Thread(target=read, daemon=True, name="log").start()
    over = False
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            if over:
                return
            over = _over(server, name, attempt)
            continue
        if isinstance(line, ClusterError) and line.status in (401, 403):
            raise line
        if line is None or isinstance(line, ClusterError):
            return  # the caller looks at the job, and comes back if it goes on
        if skip:
            skip -= 1
        else:
            yield line


def _over(server: ApiServer, name: str, attempt: AttemptStatus) -> bool:
    """Whether Ray has said all it will say of the attempt."""
    try:
        found = get_job(server, name)
    except ClusterError as error:
        if error.status and error.status < 500:
            raise
        return False
    return found.finished or found.attempt is None or found.attempt.number != attempt.number
