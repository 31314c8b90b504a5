"""`split-ppo submit`: check a file with everything `plan` checks, then hand it to the cluster."""

import sys
from typing import Any

import click

from split_ppo.cli.api_server import FIELD_MANAGER, ApiServer, Object
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.files import FINDINGS, read_job_file, show_findings
from split_ppo.cli.refusals import ClusterError
from split_ppo.jobfile import JobFile, LoadedJob
from split_ppo.placement.checks import check_job
from split_ppo.placement.plan import PlacementPlan
from split_ppo_operator.desired.reach import asked_for


def _read(context: click.Context, _: click.Parameter, file: str | None) -> JobFile | None:
    """Before a cluster is looked for: a file that is wrong is wrong without one."""
    if context.resilient_parsing:
        return None
    if file is None and sys.stdin.isatty():
        raise click.UsageError("Name a file, or pipe one in: split-ppo submit job.yaml")
    loaded = read_job_file(file or "-")
    refused = False
    for item in loaded.jobs:
        findings = check_job(item.job).findings
        show_findings(findings, {f: f"{loaded.source}:{item.line_of(f.field)}" for f in findings}, err=True)
        refused = refused or bool(findings)
    if refused:
        raise SystemExit(FINDINGS)
    return loaded


@click.command("submit")
@click.argument("loaded", metavar="[FILE]", required=False, callback=_read)
@click.option("-w", "--watch", is_flag=True, help="Draw the job until it has ended; for one job.")
@click.option("--wait", is_flag=True, help="Say what happens in lines until the job has ended; for one job.")
@click.option("--dry-run", is_flag=True, help="Let the API server check it as well, and create nothing.")
@on_cluster
def command(server: ApiServer, loaded: JobFile, watch: bool, wait: bool, dry_run: bool) -> None:
    """Check the SplitPPOJobs in FILE and create them in the cluster. `-` or nothing reads standard input.

    Whatever else is in FILE, such as the ConfigMap of a reward function, is applied first. If anything is refused, by the
    checks of `split-ppo plan` or by the API server, nothing is created.

    \b
    Examples:
      split-ppo submit job.yaml
      split-ppo submit job.yaml -n research -w       # and draw it until it has ended
      split-ppo submit job.yaml --wait && ./evaluate

    Needs the right to create splitppojobs; --watch and --wait to get them.

    Exit code: 0 submitted (with -w or --wait: trained), 1 findings, refused or failed, 2 for a file that can't be read.
    """
    if (watch or wait) and len(loaded.jobs) > 1:
        raise click.UsageError(f"-w and --wait follow one job; {loaded.source} has {len(loaded.jobs)}.")
    documents = [*((other, False) for other in loaded.others), *((_document(item), True) for item in loaded.jobs)]
    _settle_namespace(server, [document for document, _ in documents])
    for trial in ("All", None) if not dry_run else ("All",):
        for document, is_job in documents:
            _send(server, document, is_job=is_job, dry_run=trial)
    for item in loaded.jobs:
        click.echo(
            _next(server, item, check_job(item.job)) if not dry_run else f"{item.job.metadata.name} would be accepted."
        )
    if watch or wait:
        from split_ppo.cli.watching import draw_until_the_end, tell_until_the_end

        follow = draw_until_the_end if watch else tell_until_the_end
        raise SystemExit(follow(server, loaded.jobs[0].job.metadata.name))


def _document(item: LoadedJob) -> Object:
    """What the user wrote, defaults left to the API server."""
    return item.job.model_dump(by_alias=True, exclude_unset=True, exclude={"status"}, mode="json")


def _settle_namespace(server: ApiServer, documents: list[Object]) -> None:
    """The file's own namespace, if it names one and -n does not name another."""
    named = {str(d["metadata"]["namespace"]) for d in documents if d.get("metadata", {}).get("namespace")}
    wanted = {server.namespace} if server.namespace_given else named or {server.namespace}
    others = sorted((named | wanted) - {min(wanted)})
    if others:
        raise ClusterError(
            f"The file names the namespace {others[0]}, and this goes to {min(wanted)}: submit one namespace at a time, "
            "and leave -n out where the file names it."
        )
    server.namespace = min(wanted)


def _send(server: ApiServer, document: Object, *, is_job: bool, dry_run: str | None) -> None:
    query = {"fieldManager": FIELD_MANAGER, **({"dryRun": dry_run} if dry_run else {})}
    if not is_job:
        path = _path(server, document)
        server.json("PATCH", path, document, query=query, content_type="application/apply-patch+yaml")
        return
    try:
        server.json("POST", server.jobs_path(), document, query=query)
    except ClusterError as error:
        if error.status != 409:
            raise
        name = document["metadata"]["name"]
        raise ClusterError(
            f"There is a SplitPPOJob {name} in namespace {server.namespace} already. Delete it (split-ppo delete {name}), "
            "give this one another name, or change that one with kubectl apply.",
            status=409,
        ) from None


def _path(server: ApiServer, document: Object) -> str:
    """Where an object of any kind is applied; the API server knows its kinds."""
    version, kind = str(document.get("apiVersion", "")), str(document["kind"])
    prefix = f"apis/{version}" if "/" in version else f"api/{version}"
    known: list[dict[str, Any]] = server.get(f"/{prefix}")["resources"]
    found = next((r for r in known if r["kind"] == kind and "/" not in r["name"]), None)
    if found is None:
        raise ClusterError(f"The cluster knows no {kind} in {version}.")
    return server.path(prefix, found["name"], document["metadata"]["name"], namespaced=found["namespaced"])


def _next(server: ApiServer, item: LoadedJob, plan: PlacementPlan) -> str:
    """What was submitted, what happens now, and how to look at it."""
    name = item.job.metadata.name
    unit = "GPUs" if plan.device == "GPU" else "CPU slots"
    sizes = " + ".join(f"{p.name} {p.world_size}" for p in plan.pools)
    there = f" -n {server.namespace}"
    lines = [f"{name} was submitted to namespace {server.namespace}: {plan.mode}, {sizes} of {plan.total_gpus} {unit}."]
    if item.job.spec.suspend:
        return f"{lines[0]} It is suspended: split-ppo resume {name}{there} starts it."
    reach = asked_for(item.job, plan)
    if reach:
        lines.append(
            f"Its podTemplate needs {', '.join(reach)}, which the operator's --allow-in-pod-template must allow."
        )
    pods = sum(p.nodes for p in plan.pools)
    lines += [
        f"Now the operator makes the RayCluster {name}-1 (a head and {pods} worker pod{'s' * (pods != 1)}), waits until every "
        "pool is ready, and starts the training.",
        f"  split-ppo status {name}{there} -w    how far it is, and why it waits",
        f"  split-ppo logs {name}{there} -f      what driver and workers say",
    ]
    return "\n".join(lines)
