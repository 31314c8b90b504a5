"""`split-ppo delete`: a job and all that was made for it."""

import sys
import time

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.holdings import after_deletion, held
from split_ppo.cli.jobs import get_job
from split_ppo.cli.refusals import ClusterError


@click.command("delete")
@click.argument("names", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; nobody is asked where there is no terminal.")
@click.option("--wait", is_flag=True, help="Return when the pods are gone.")
@on_cluster
def command(server: ApiServer, names: tuple[str, ...], yes: bool, wait: bool) -> None:
    """Delete the SplitPPOJobs NAMES with their RayClusters and pods. Checkpoints stay.

    \b
    Examples:
      split-ppo delete train
      split-ppo delete train other --yes --wait

    Needs the right to get and delete splitppojobs; --wait also to list pods.
    """
    for found in [get_job(server, name) for name in names]:
        freed = held(found)
        gives = f"It gives back {freed}." if freed else "It holds no pods."
        click.echo(f"{found.name} is {found.phase}. {gives} {after_deletion(found)}")
        if (
            freed
            and not found.finished
            and not yes
            and sys.stdin.isatty()
            and not click.confirm(f"Delete {found.name}?")
        ):
            click.echo(f"{found.name} stays.")
            continue
        # This very job: one that was made anew under the same name meanwhile stays.
        options = {"preconditions": {"uid": found.job.metadata.uid}, "propagationPolicy": "Background"}
        try:
            server.json("DELETE", server.jobs_path(found.name), options)
        except ClusterError as error:
            if error.status not in (404, 409):
                raise
        click.echo(f"{found.name} was deleted.")
        if wait:
            while server.find("pods", labels=f"splitppo.io/job={found.name}", purpose="--wait looks at them."):
                time.sleep(1.0)
