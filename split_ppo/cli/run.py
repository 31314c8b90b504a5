"""`split-ppo run`: the same job, trained on this machine. Thin: the work is in split_ppo_trainer.local."""

from importlib.util import find_spec
from pathlib import Path

import click

from split_ppo.cli.files import UNREADABLE, read_job_file, show_findings

INSTALL = (
    "The trainer's stack (torch, vLLM, verl, Ray) is not installed here. In a checkout: make install-trainer. "
    "Elsewhere, with GPUs: pip install 'split-ppo[trainer]'."
)


@click.command("run")
@click.argument("file")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), help="Folder of the run. [runs/NAME]")
@click.option("--resume", is_flag=True, help="Continue from the last checkpoint in the folder.")
@click.option("--steps", type=click.IntRange(min=1), help="Train this many steps.")
@click.option("--mode", type=click.Choice(["Split", "Colocated"]), help="Placement mode instead of the job's.")
@click.option(
    "--overlap",
    type=click.Choice(["None", "Update", "Inference", "NextGeneration"]),
    help="Overlap level instead of the job's.",
)
@click.option("--job", "name", help="Which job, if FILE holds several.")
@click.option("--curve", is_flag=True, help="Draw the reward and say who sat where at the end.")
def command(
    file: str,
    output: Path | None,
    resume: bool,
    steps: int | None,
    mode: str | None,
    overlap: str | None,
    name: str | None,
    curve: bool,
) -> None:
    """Train the SplitPPOJob in FILE on this machine: a Ray node for each node of each pool, GPUs shared out between them,
    or slots on the CPU with `device: CPU`.

    \b
    Examples:
      split-ppo run examples/quickstart-cpu.yaml
      split-ppo run job.yaml --output out --steps 20
      split-ppo run job.yaml --mode Colocated --output baseline      # the same GPUs, one pool
      split-ppo run job.yaml --output out --resume                   # after Ctrl-C, a crash, a reboot

    \b
    In the folder: metrics.jsonl (a line a step), events.jsonl, plan.json, summary.json, run.log (everything every process
    said), checkpoints/.

    Ctrl-C stops everything that was started, a second one at once.

    Exit code: 0 trained, 1 training failed, 2 the job or a file it names is wrong, 3 a pool was not there, 130 stopped.
    """
    if find_spec("ray") is None or find_spec("verl") is None:
        raise SystemExit(_fail(INSTALL))
    from split_ppo.cli.local_job import LocalJobError, override, reward_source, with_local_paths
    from split_ppo.placement.checks import check_job
    from split_ppo.runplan import resolve
    from split_ppo_trainer import local

    loaded = read_job_file(file)
    jobs = [item for item in loaded.jobs if name in (None, item.job.metadata.name)]
    if len(jobs) != 1:
        names = ", ".join(item.job.metadata.name for item in loaded.jobs)
        raise SystemExit(_fail(f"{loaded.source} holds the jobs {names}: choose one with --job NAME."))
    item = jobs[0]
    try:
        job = override(item.job, mode=mode, overlap=overlap, steps=steps)
        reward = reward_source(job, loaded.others, loaded.source)
        job = with_local_paths(job, Path.cwd() if file == "-" else Path(file).resolve().parent)
        placement = check_job(job, on_kubernetes=False)
        if placement.findings:
            where = {found: f"{loaded.source}:{item.line_of(found.field)}" for found in placement.findings}
            show_findings(placement.findings, where, err=True)
            raise SystemExit(UNREADABLE)
        folder = local.RunFolder.choose(output, name=job.metadata.name, resume=resume)
    except (LocalJobError, local.FolderProblem) as problem:
        raise SystemExit(_fail(str(problem))) from None
    function = job.spec.training.reward.function
    reward_file = folder.write_reward(reward) if reward is not None else function.path if function else None
    plan = resolve(job, placement, checkpoint_dir=str(folder.checkpoints), reward_file=reward_file)
    raise SystemExit(local.train(plan, folder, resume=resume, curve=curve))


def _fail(message: str) -> int:
    click.echo(message, err=True)
    return UNREADABLE
