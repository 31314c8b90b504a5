"""`split-ppo suspend`: give every GPU back, keep the checkpoint."""

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.holdings import after_suspension, held
from split_ppo.cli.jobs import get_job, patch_job
from split_ppo.cli.refusals import ClusterError
from split_ppo.cli.watching import looks


@click.command("suspend")
@click.argument("names", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Return when the pods are gone.")
@on_cluster
def command(server: ApiServer, names: tuple[str, ...], wait: bool) -> None:
    """Suspend the SplitPPOJobs NAMES: the training stops, every GPU is given back, the checkpoint stays.

    \b
    Examples:
      split-ppo suspend train
      split-ppo suspend train --wait && kubectl apply -f bigger.yaml
      split-ppo resume train

    Needs the right to get and patch splitppojobs.
    """
    for found in [get_job(server, name) for name in names]:
        if found.finished:
            click.echo(f"{found.name} has ended ({found.phase}); there is nothing to suspend.")
            continue
        if found.job.spec.suspend:
            click.echo(f"{found.name} is suspended already.")
            continue
        freed = held(found)
        patch_job(server, found.name, {"spec": {"suspend": True}})
        gives = f"it gives back {freed}." if freed else "it holds no pods."
        click.echo(f"{found.name} is being suspended; {gives} {after_suspension(found)}")
    if wait:
        for name in names:
            _await(server, name)


def _await(server: ApiServer, name: str) -> None:
    for found in looks(server, name):
        if not isinstance(found, ClusterError) and (found.finished or found.status.reason == "Suspended"):
            return
