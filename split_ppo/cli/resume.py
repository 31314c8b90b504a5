"""`split-ppo resume`: go on from the checkpoint."""

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.jobs import get_job, patch_job
from split_ppo.cli.watching import draw_until_the_end


@click.command("resume")
@click.argument("names", nargs=-1, required=True)
@click.option("-w", "--watch", is_flag=True, help="Draw it until it has ended; for one job.")
@on_cluster
def command(server: ApiServer, names: tuple[str, ...], watch: bool) -> None:
    """Let the suspended SplitPPOJobs NAMES go on, from their newest checkpoint.

    \b
    Examples:
      split-ppo resume train
      split-ppo resume train -w

    Needs the right to get and patch splitppojobs.
    """
    if watch and len(names) > 1:
        raise click.UsageError("-w draws one job; name one.")
    for found in [get_job(server, name) for name in names]:
        if found.finished:
            click.echo(f"{found.name} has ended ({found.phase}); submit it under a new name, or delete it first.")
        elif not found.job.spec.suspend:
            click.echo(f"{found.name} is not suspended.")
        else:
            patch_job(server, found.name, {"spec": {"suspend": False}})
            training = found.status.training
            start = training.checkpoint if training and found.job.spec.storage.checkpoints else None
            click.echo(f"{found.name} goes on {f'from {start}' if start else 'at step 0'} when its pools are ready.")
    if watch:
        raise SystemExit(draw_until_the_end(server, names[0]))
