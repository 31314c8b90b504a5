"""`split-ppo advise`: which split of the same GPUs would be fastest, from what a run measured."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from split_ppo.cli.files import UNREADABLE

if TYPE_CHECKING:
    from split_ppo.compare.run_record import RunRecord
    from split_ppo.placement.advice import Advice

PROBE_STEPS = 6


@click.command("advise")
@click.argument("folders", metavar="[RUN...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--probe", "job", metavar="JOB", help="Measure a few steps of this job first, here.")
@click.option("--steps", type=click.IntRange(min=3), default=PROBE_STEPS, show_default=True, help="Steps of a probe.")
@click.option("--output-dir", type=click.Path(path_type=Path, file_okay=False), help="Folder of the probe's runs.")
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def command(folders: tuple[Path, ...], job: str | None, steps: int, output_dir: Path | None, form: str) -> None:
    """From the seconds that the run in folder RUN measured, predict the step of every other split of its GPUs and of
    Colocated, and say which is best, by how much and how sure that is. More runs of the same job on other splits make it surer.

    \b
    Examples:
      split-ppo advise runs/first
      split-ppo advise runs/first runs/colocated     # two sizes of each pool: nothing has to be assumed
      split-ppo advise --probe job.yaml              # a few steps as the job is, a few on one pool, then the advice

    docs/compare.md has the formula.

    Exit code: 0 advised, 1 a probe failed, 2 a folder that holds no run, or runs of different jobs.
    """
    from split_ppo.compare.figures import figures, measured
    from split_ppo.compare.run_record import NotARun, read_runs
    from split_ppo.compare.verdict import differences
    from split_ppo.placement.advice import advise

    if not folders and job is None:
        raise SystemExit(_fail("Name the folder of a run, or a job with --probe job.yaml."))
    found = list(folders)
    if job is not None:
        from split_ppo.cli.probe import probe

        found += probe(job, steps=steps, output=output_dir)
    try:
        runs = read_runs(found)
    except NotARun as problem:
        raise SystemExit(_fail(str(problem))) from None
    if differs := differences(runs):
        sentence = "These are runs of different jobs, which say nothing about each other:"
        raise SystemExit(_fail("\n  ".join([sentence, *differs])))
    advice = advise([measured(run) for run in runs], runs[0].plan.verl, spread=figures(runs[0]).spread)
    if form == "json":
        click.echo(json.dumps(as_json(advice), indent=2))
    else:
        _show(advice, runs)


def as_json(advice: "Advice") -> dict[str, Any]:
    """The advice with every digit; keys are only ever added."""
    return {
        "measured": advice.measured.split,
        "overlap": advice.overlap,
        "best": advice.best.split,
        "gain_percent": advice.gain_percent,
        "sure": advice.sure,
        "message": advice.sentence(),
        "predictions": [
            {"split": p.split, "seconds": p.seconds, "low": p.low, "high": p.high, "measured": p.measured}
            for p in advice.ranking
        ],
    }


def _show(advice: "Advice", runs: "list[RunRecord]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("split", no_wrap=True)
    for column in ("step, s", "from", "to", "against now", ""):
        table.add_column(column, justify="right")
    for prediction in advice.ranking:
        ratio = f"{prediction.seconds / advice.measured.seconds:.2f}"
        source = "measured" if prediction.measured else ""
        table.add_row(
            prediction.split,
            *(f"{s:.2f}" for s in (prediction.seconds, prediction.low, prediction.high)),
            ratio,
            source,
        )
    Console(highlight=False, markup=False).print(table)
    click.echo(f"\n{advice.sentence()}")
    if len(runs) == 1:
        known = "reckoned from what its ranks take to exchange parameters" if runs[0].machine.exchange else "assumed"
        click.echo(
            f"From one run: how well the work scales is {known}. A second run on another split would measure it."
        )


def _fail(message: str) -> int:
    click.echo(message, err=True)
    return UNREADABLE
