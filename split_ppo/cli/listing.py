"""`split-ppo list`: the jobs of a namespace, like `kubectl get`, with what each waits for."""

import json
import shutil
import sys
from datetime import UTC, datetime

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.job_drawing import draw_table
from split_ppo.cli.jobs import list_jobs


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of every namespace.")
@click.option("-l", "--selector", default="", help="Only jobs with these labels, such as team=nlp.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "name"]), default="text", help="Form of the answer."
)
@on_cluster
def command(server: ApiServer, all_namespaces: bool, selector: str, form: str) -> None:
    """List SplitPPOJobs: phase, pools, step, reward, and why a job waits. Newest last.

    \b
    Examples:
      split-ppo list
      split-ppo list -A
      split-ppo list -o name | xargs split-ppo suspend

    Needs the right to list splitppojobs.
    """
    jobs = sorted(list_jobs(server, labels=selector, all_namespaces=all_namespaces), key=lambda j: (j.created, j.name))
    if form == "json":
        click.echo(json.dumps([job.raw for job in jobs], indent=2))
    elif form == "name":
        for job in jobs:
            click.echo(job.name)
    elif not jobs:
        where = "in any namespace" if all_namespaces else f"in namespace {server.namespace}"
        click.echo(f"There are no SplitPPOJobs {where}.", err=True)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        click.echo(draw_table(jobs, datetime.now(UTC), namespaces=all_namespaces, width=width), nl=False)
