"""`split-ppo validate`: for pipelines; silent when all is well."""

import click

from split_ppo.cli.files import FINDINGS, read_job_file, show_findings
from split_ppo.placement.checks import check_job


@click.command("validate")
@click.argument("files", nargs=-1, required=True)
@click.option("--local", is_flag=True, help="Only what matters for `split-ppo run`: no pod names, no shared storage.")
def command(files: tuple[str, ...], local: bool) -> None:
    """Check the SplitPPOJobs in FILES; `-` is standard input. Prints only what is wrong.

    \b
    Examples:
      split-ppo validate jobs/*.yaml
      kubectl get sppo -o yaml first | split-ppo validate -

    Exit code: 0 when every job could start, 1 with findings, 2 for a file that can't be read.
    """
    wrong = False
    for name in files:
        loaded = read_job_file(name)
        for item in loaded.jobs:
            plan = check_job(item.job, on_kubernetes=not local)
            if plan.findings:
                wrong = True
                click.echo(f"{item.job.metadata.name}:", err=True)
                places = {f: f"{loaded.source}:{item.line_of(f.field)}" for f in plan.findings}
                show_findings(plan.findings, places, err=True)
    if wrong:
        raise SystemExit(FINDINGS)
