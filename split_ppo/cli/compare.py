"""`split-ppo compare`: runs side by side, and who was faster."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from split_ppo.cli.files import UNREADABLE

if TYPE_CHECKING:
    from split_ppo.compare.figures import RunFigures


@click.command("compare")
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a report with a timeline here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False), help="Write PNG files into this folder.")
def command(folders: tuple[Path, ...], form: str, html: Path | None, plots: Path | None) -> None:
    """Put the runs in the folders RUN side by side: seconds per phase and step, reward, pools, and which was faster.

    \b
    Examples:
      split-ppo compare runs/split runs/colocated
      split-ppo compare runs/a runs/b --html report.html     # one file: timeline, phases, pools, reward
      split-ppo compare runs/a runs/b --plots plots/         # PNG files, needs pip install 'split-ppo[report]'
      split-ppo compare runs/* -o json | jq .verdicts

    Medians leave the first step out. A difference is called clear when it is larger than the runs' own spread.

    Exit code: 0 compared, 2 a folder that holds no run.
    """
    from split_ppo.compare.figures import figures
    from split_ppo.compare.run_record import NotARun, read_runs
    from split_ppo.compare.table import as_json
    from split_ppo.compare.verdict import differences, verdicts

    if plots is not None and find_spec("matplotlib") is None:
        raise SystemExit(_fail("--plots draws with matplotlib, which is not here: pip install 'split-ppo[report]'."))
    try:
        runs = read_runs(list(folders))
    except NotARun as problem:
        raise SystemExit(_fail(str(problem))) from None
    found = [figures(run) for run in runs]
    judged, differs = verdicts(found), differences(runs)
    if form == "json":
        click.echo(json.dumps(as_json(found, judged, differs), indent=2))
    else:
        _show(found)
        for verdict in judged:
            click.echo(f"\n{verdict.sentence()}")
        if differs:
            click.echo("\nThese runs differ in more than their placement:")
            for line in differs:
                click.echo(f"  {line}")
    if html is not None:
        from split_ppo.compare.report import html_report

        html.write_text(html_report(runs), encoding="utf-8")
        click.echo(f"Wrote {html}", err=True)
    if plots is not None:
        from split_ppo.compare.plots import write_plots

        for path in write_plots(runs, plots):
            click.echo(f"Wrote {path}", err=True)


def _show(found: "list[RunFigures]") -> None:
    from rich.console import Console
    from rich.table import Table

    from split_ppo.compare.table import rows

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for run in found:
        table.add_column(run.name, justify="right")
    for label, cells in rows(found):
        table.add_row(label, *cells)
    Console(highlight=False, markup=False).print(table)


def _fail(message: str) -> int:
    click.echo(message, err=True)
    return UNREADABLE
