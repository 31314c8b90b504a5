"""The comparison as a table for people and as JSON for programs. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from split_ppo.compare.figures import PIECES, RunFigures
from split_ppo.compare.verdict import Verdict

Row = tuple[str, list[str]]


def rows(runs: Sequence[RunFigures]) -> list[Row]:
    """A row a figure, a cell a run; what no run has is left out."""
    found: list[Row] = [("placement", [run.title for run in runs]), ("steps", [str(run.steps) for run in runs])]

    def add(label: str, value: Callable[[RunFigures], float | None], form: str) -> None:
        values = [value(run) for run in runs]
        if any(number is not None for number in values):
            found.append((label, ["" if number is None else format(number, form) for number in values]))

    add("step, s", lambda run: run.step, ".2f")
    add("  spread, s", lambda run: run.spread, ".2f")
    for piece in PIECES:
        add(f"  {piece}, s", lambda run, piece=piece: run.seconds.get(piece), ".2f")  # type: ignore[misc]
    add("overlap efficiency", lambda run: run.overlap_efficiency, ".0%")
    add("reward, first", lambda run: run.first_reward, ".3f")
    add("reward, last", lambda run: run.last_reward, ".3f")
    add("reward, best", lambda run: run.best_reward, ".3f")
    for pool in dict.fromkeys(name for run in runs for name in run.pools):
        for label, field, form in (
            ("busy", "busy_share", ".0%"),
            ("waits, s", "wait_s", ".2f"),
            ("tokens/s", "tokens_per_s", ".0f"),
            ("memory, GB", "memory_gb", ".2f"),
        ):
            add(f"{pool} pool {label}", lambda run, p=pool, f=field: getattr(run.pools.get(p), f, None), form)  # type: ignore[misc]
    return found


def as_json(runs: Sequence[RunFigures], verdicts: Sequence[Verdict], differences: Sequence[str]) -> dict[str, Any]:
    """The same with every digit; keys are only ever added."""
    return {
        "runs": [asdict(run) for run in runs],
        "verdicts": [
            {**asdict(verdict), "ratio": verdict.ratio, "clear": verdict.clear, "sentence": verdict.sentence()}
            for verdict in verdicts
        ],
        "differences": list(differences),
    }
