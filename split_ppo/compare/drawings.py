"""Drawings of the report, as SVG text. Pure."""

from collections.abc import Sequence
from html import escape

from split_ppo.compare.figures import PIECES, RunFigures
from split_ppo.compare.run_record import RunRecord
from split_ppo.compare.timeline import Piece, Timeline

# Okabe and Ito's colours, which people who confuse colours can tell apart.
COLOURS = {
    "gen": "#0072B2", "reward": "#CC79A7", "old_log_prob": "#56B4E9", "ref": "#8DA0CB", "values": "#F0E442", "adv": "#666666",
    "update_critic": "#D55E00", "update_actor": "#009E73", "update_weights": "#E69F00",
    "save_checkpoint": "#A6761D", "testing": "#B3B3B3",
}  # fmt: skip
RUN_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#F0E442")
WIDTH, LABEL = 1000, 120
LANE, GAP, AXIS = 30, 8, 24


def timeline_svg(drawn: Timeline, *, full_seconds: float, name: str) -> str:
    """One lane a pool. `full_seconds` is the width of the drawing, the same for all runs, so that shorter is faster."""
    scale = (WIDTH - LABEL) / full_seconds
    height = len(drawn.lanes) * (LANE + GAP) + AXIS
    length = drawn.seconds * scale
    parts = []
    for index, lane in enumerate(drawn.lanes):
        y = index * (LANE + GAP)
        parts.append(f'<text x="0" y="{y + 13}" class="lane">{escape(lane.pool)} x {lane.gpus}</text>')
        parts.append(f'<text x="0" y="{y + 27}" class="idle-share">idle {lane.idle_share:.0%}</text>')
        parts.append(
            f'<rect class="idle" data-pool="{escape(lane.pool)}" x="{LABEL}" y="{y}" width="{length:.2f}" height="{LANE}"/>'
        )
        parts += [_piece(piece, lane.pool, scale, y) for piece in lane.pieces]
    for number, begin in drawn.steps:
        x = LABEL + begin * scale
        parts.append(f'<line class="step" x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="{height - AXIS + 4}"/>')
        parts.append(f'<text class="tick" x="{x + 3:.2f}" y="{height - 8}">step {number}</text>')
    end = LABEL + length
    parts.append(f'<text class="tick" x="{end:.2f}" y="{height - 8}" text-anchor="end">{drawn.seconds:.1f} s</text>')
    return _svg(parts, height, f"Timeline of {name}", "timeline")


def _piece(piece: Piece, pool: str, scale: float, y: int) -> str:
    seconds = piece.end - piece.begin
    said = f"{piece.name} of step {piece.step} on {pool}: {seconds:.2f} s, from {piece.begin:.2f} to {piece.end:.2f}"
    return (
        f'<rect class="piece" data-piece="{escape(piece.name)}" data-pool="{escape(pool)}" data-step="{piece.step}" '
        f'x="{LABEL + piece.begin * scale:.2f}" y="{y}" width="{max(seconds * scale, 0.5):.2f}" height="{LANE}" '
        f'fill="{COLOURS.get(piece.name, "#888888")}"><title>{escape(said)}</title></rect>'
    )


def phases_svg(runs: Sequence[RunFigures]) -> str:
    """Seconds of the pieces stacked, and the step as a line: what reaches beyond it was overlapped."""
    longest = max(max(sum(run.seconds.values()), run.step) for run in runs) or 1.0
    scale = (WIDTH - LABEL) / longest
    parts = []
    for index, run in enumerate(runs):
        y, x = index * (LANE + GAP), float(LABEL)
        parts.append(f'<text x="0" y="{y + 19}" class="lane">{escape(_short(run.name))}</text>')
        for piece in PIECES:
            width = run.seconds.get(piece, 0.0) * scale
            if width:
                said = f"{run.name}: {piece} {run.seconds[piece]:.2f} s"
                parts.append(
                    f'<rect class="bar" data-piece="{piece}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{LANE}" '
                    f'fill="{COLOURS[piece]}"><title>{escape(said)}</title></rect>'
                )
                x += width
        mark = LABEL + run.step * scale
        parts.append(f'<line class="mark" x1="{mark:.2f}" x2="{mark:.2f}" y1="{y - 2}" y2="{y + LANE + 2}"/>')
        anchor = "end" if mark > WIDTH - 120 else "start"
        offset = -4 if anchor == "end" else 4
        parts.append(
            f'<text class="mark-label" x="{mark + offset:.2f}" y="{y + 19}" text-anchor="{anchor}">step {run.step:.2f} s</text>'
        )
    return _svg(parts, len(runs) * (LANE + GAP), "Seconds per phase", "phases")


def pools_svg(runs: Sequence[RunFigures]) -> str:
    """Busy share of each pool."""
    parts, y = [], 0
    for run in runs:
        for pool, found in run.pools.items():
            share = found.busy_share or 0.0
            full = WIDTH - LABEL - 320
            parts.append(
                f'<text x="0" y="{y + 16}" class="lane">{escape(_short(run.name, 40))} / {escape(pool)}</text>'
            )
            parts.append(f'<rect class="idle" x="{LABEL + 240}" y="{y}" width="{full}" height="22"/>')
            parts.append(
                f'<rect class="busy" x="{LABEL + 240}" y="{y}" width="{share * full:.2f}" height="22" fill="{COLOURS["gen"]}"/>'
            )
            parts.append(f'<text class="tick" x="{LABEL + 250 + full}" y="{y + 16}">{share:.0%} busy</text>')
            y += 30
    return _svg(parts, y, "Pool utilisation", "pools")


def reward_svg(runs: Sequence[RunRecord]) -> str:
    """Mean reward, a line a run."""
    curves = [[(step.number, step.reward) for step in run.steps if step.reward is not None] for run in runs]
    points = [point for curve in curves for point in curve]
    if not points:
        return ""
    height, last = 220, max(number for number, _ in points)
    low, high = min(reward for _, reward in points), max(reward for _, reward in points)
    span, first = (high - low) or 1.0, min(number for number, _ in points)

    def at(number: int, reward: float) -> str:
        x = LABEL + (number - first) / max(last - first, 1) * (WIDTH - LABEL - 10)
        return f"{x:.1f},{10 + (high - reward) / span * (height - 40):.1f}"

    parts = [
        f'<text class="tick" x="{LABEL - 8}" y="14" text-anchor="end">{high:.3f}</text>',
        f'<text class="tick" x="{LABEL - 8}" y="{height - 26}" text-anchor="end">{low:.3f}</text>',
        f'<text class="tick" x="{LABEL}" y="{height - 6}">step {first}</text>',
        f'<text class="tick" x="{WIDTH}" y="{height - 6}" text-anchor="end">step {last}</text>',
    ]
    for index, (run, curve) in enumerate(zip(runs, curves, strict=True)):
        colour = RUN_COLOURS[index % len(RUN_COLOURS)]
        line = " ".join(at(number, reward) for number, reward in curve)
        parts.append(
            f'<polyline class="reward" fill="none" stroke="{colour}" stroke-width="2" points="{line}">'
            f"<title>{escape(run.name)}</title></polyline>"
        )
    return _svg(parts, height, "Reward", "reward")


def _svg(parts: Sequence[str], height: int, title: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 -4 {WIDTH} {height + 8}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def _short(name: str, length: int = 16) -> str:
    return name if len(name) <= length else f"…{name[1 - length :]}"
