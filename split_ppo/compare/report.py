"""One HTML file that needs nothing else: no server, no network, no font. The text of the file comes out."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from split_ppo.compare.drawings import COLOURS, RUN_COLOURS, phases_svg, pools_svg, reward_svg, timeline_svg
from split_ppo.compare.figures import PIECES, figures
from split_ppo.compare.run_record import RunRecord
from split_ppo.compare.table import rows
from split_ppo.compare.timeline import timeline
from split_ppo.compare.verdict import differences, verdicts

HATCH = (
    '<svg width="0" height="0" style="position:absolute;width:0;height:0" aria-hidden="true"><defs><pattern id="hatch" width="6" '
    'height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" '
    'stroke="var(--hatch)" stroke-width="2"/></pattern></defs></svg>'
)


def html_report(runs: Sequence[RunRecord]) -> str:
    """The report on these runs."""
    found = [figures(run) for run in runs]
    title = " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"
    parts = [f"<h1>{escape(title)}</h1>"]
    for verdict in verdicts(found):
        clear = "" if verdict.clear else " unclear"
        parts.append(f'<p class="verdict{clear}">{escape(verdict.sentence())}</p>')
    if differs := differences(runs):
        parts.append('<p class="note">These runs differ in more than their placement:</p><ul class="note differences">')
        parts += [f"<li>{escape(line)}</li>" for line in differs] + ["</ul>"]
    parts.append("<h2>Timeline</h2>" + _timelines(runs))
    parts.append(
        "<h2>Seconds per phase</h2>"
        '<p class="note">Medians, the first step left out. The line is the step: what reaches beyond it ran beside something '
        "else.</p>" + phases_svg(found)
    )
    parts.append("<h2>Pool utilisation</h2>" + pools_svg(found))
    parts.append("<h2>Reward</h2>" + _run_legend(runs) + reward_svg(runs))
    parts.append("<h2>Figures</h2>" + _table(runs))
    return _page(title, "\n".join(parts))


def _timelines(runs: Sequence[RunRecord]) -> str:
    drawn = [(run, timeline(run)) for run in runs]
    full = max((line.seconds for _, line in drawn if line), default=0.0)
    parts = [
        '<p class="note">A few steps from the middle of each run, all at the same scale. Hatched: the pool stands idle.</p>',
        _legend([piece for piece in COLOURS if any(_has(line, piece) for _, line in drawn)]),
        '<p id="said" class="note" aria-live="polite"></p>',
    ]
    for run, line in drawn:
        parts.append(f"<h3>{escape(run.name)} <span class='note'>{escape(run.title)}</span></h3>")
        if line is None:
            parts.append('<p class="note missing">This run did not write when its pieces began.</p>')
        else:
            parts.append(timeline_svg(line, full_seconds=full, name=run.name))
    return "\n".join(parts)


def _has(line: object, piece: str) -> bool:
    lanes = getattr(line, "lanes", ())
    return any(drawn.name == piece for lane in lanes for drawn in lane.pieces)


def _legend(pieces: Sequence[str]) -> str:
    order = [piece for piece in (*PIECES, *COLOURS) if piece in pieces]
    entries = [
        f'<li><button data-piece="{piece}"><i style="background:{COLOURS[piece]}"></i>{piece}</button></li>'
        for piece in dict.fromkeys(order)
    ]
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _run_legend(runs: Sequence[RunRecord]) -> str:
    entries = [
        f'<li><i style="background:{RUN_COLOURS[index % len(RUN_COLOURS)]}"></i>{escape(run.name)}</li>'
        for index, run in enumerate(runs)
    ]
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _table(runs: Sequence[RunRecord]) -> str:
    head = "".join(f"<th>{escape(run.name)}</th>" for run in runs)
    body = "".join(
        f"<tr><td>{escape(label)}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for label, cells in rows([figures(run) for run in runs])
    )
    return f'<div class="table"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _page(title: str, body: str) -> str:
    style, script = (files("split_ppo.compare").joinpath(name).read_text() for name in ("report.css", "report.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} - split-ppo</title><style>{style}</style></head>\n"
        f"<body>{HATCH}\n{body}\n<script>{script}</script></body></html>\n"
    )
