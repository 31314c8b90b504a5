"""`split-ppo status`: one job, how far it is and what it waits for."""

import json
from datetime import UTC, datetime

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.job_drawing import draw_job
from split_ppo.cli.jobs import get_job
from split_ppo.cli.watching import draw_until_the_end


@click.command("status")
@click.argument("name")
@click.option("-w", "--watch", is_flag=True, help="Draw it again as it changes, until the job has ended.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "yaml"]), default="text", help="Form of the answer."
)
@on_cluster
def command(server: ApiServer, name: str, watch: bool, form: str) -> None:
    """Show how far the SplitPPOJob NAME is: its pools, its training, its attempts, and why it waits.

    \b
    Examples:
      split-ppo status train
      split-ppo status train -w                      # live, until it has ended
      split-ppo status train -o json | jq .status.training

    Needs the right to get splitppojobs. Exit code: 0; with -w 1 when the job has failed.
    """
    if watch and form != "text":
        raise click.UsageError("-w draws text; leave -o out, or ask without -w.")
    if watch:
        raise SystemExit(draw_until_the_end(server, name))
    found = get_job(server, name)
    if form == "text":
        click.echo(draw_job(found, datetime.now(UTC)), nl=False)
    elif form == "json":
        click.echo(json.dumps(found.raw, indent=2))
    else:
        from split_ppo.cli.yaml_text import yaml_text

        click.echo(yaml_text(found.raw), nl=False)
