"""`split-ppo plan`: the placement of each job in a file, as a drawing, JSON or YAML, with everything that is wrong with it."""

import json
import sys
from typing import Any

import click

from split_ppo.cli.files import FINDINGS, read_job_file, show_findings
from split_ppo.jobfile import LoadedJob
from split_ppo.placement.checks import check_job
from split_ppo.placement.plan import PlacementPlan


class NodesByGPUs(click.ParamType[tuple[int, int]]):
    """`2x8`: nodes times GPUs per node."""

    name = "NODESxGPUS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        nodes, _, gpus = str(value).lower().partition("x")
        if not (nodes.isdigit() and gpus.isdigit() and int(nodes) and int(gpus)):
            self.fail(f"{value} is not like 2x8: nodes, an x, GPUs per node.")
        return int(nodes), int(gpus)


@click.command("plan")
@click.argument("file", required=False)
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "yaml"]), default="text", help="Form of the answer."
)
@click.option("--manifests", is_flag=True, help="Print what the operator would create, as YAML for kubectl.")
@click.option("--available", type=NodesByGPUs(), help="What there is, such as 2x8: says if the plan needs more.")
def command(file: str | None, form: str, manifests: bool, available: tuple[int, int] | None) -> None:
    """Check the SplitPPOJobs in FILE and draw who sits where. Starts nothing.

    FILE may hold several documents; `-` or nothing reads standard input.

    \b
    Examples:
      split-ppo plan job.yaml
      split-ppo plan job.yaml -o json | jq .pools
      split-ppo plan job.yaml --available 1x8
      split-ppo plan job.yaml --manifests | kubectl apply --dry-run=server -f -

    Exit code: 0 when every job could start, 1 with findings, 2 for a file that can't be read.
    """
    if file is None and sys.stdin.isatty():
        raise click.UsageError("Name a file, or pipe one in: split-ppo plan job.yaml")
    loaded = read_job_file(file or "-")
    planned = [(item, _plan(item, available)) for item in loaded.jobs]
    if manifests:
        _print_manifests(planned)
    elif form == "text":
        from split_ppo.cli.drawing import draw

        for index, (item, plan) in enumerate(planned):
            click.echo("\n" if index else "", nl=False)
            click.echo(draw(item.job, plan))
            _show(loaded.source, item, plan, err=False)
    else:
        plans = [plan.model_dump(mode="json") for _, plan in planned]
        click.echo(_serialise(plans[0] if len(plans) == 1 else plans, form), nl=False)
    if any(plan.findings for _, plan in planned):
        raise SystemExit(FINDINGS)


def _plan(item: LoadedJob, available: tuple[int, int] | None) -> PlacementPlan:
    from split_ppo.placement.capacity import fits

    plan = check_job(item.job)
    missing = tuple(fits(plan, nodes=available[0], gpus_per_node=available[1])) if available else ()
    return plan.model_copy(update={"findings": plan.findings + missing})


def _print_manifests(planned: list[tuple[LoadedJob, PlacementPlan]]) -> None:
    from split_ppo.cli.yaml_text import yaml_text
    from split_ppo_operator.desired import desired_objects

    for item, plan in planned:
        if plan.findings:
            _show("", item, plan, err=True)
        else:
            click.echo(yaml_text(*desired_objects(item.job, plan, attempt=1)), nl=False)


def _show(source: str, item: LoadedJob, plan: PlacementPlan, *, err: bool) -> None:
    prefix = f"{source}:" if source else "line "
    show_findings(plan.findings, {f: f"{prefix}{item.line_of(f.field)}" for f in plan.findings}, err=err)


def _serialise(data: Any, form: str) -> str:
    if form == "json":
        return json.dumps(data, indent=2) + "\n"
    from split_ppo.cli.yaml_text import yaml_text

    return yaml_text(data)
