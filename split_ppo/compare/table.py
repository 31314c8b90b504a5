"""The comparison as a table for people and as JSON for programs. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from split_ppo.compare.figures import PIECES, RunFigures, WorkerFigures
from split_ppo.compare.verdict import Verdict

Row = tuple[str, list[str]]
MOST_WORKERS = 8  # of a pool, to give each a row of its own


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
        found += worker_rows(pool, [run.pools[pool].workers if pool in run.pools else {} for run in runs])
    return found


def worker_rows(pool: str, runs: Sequence[Mapping[str, WorkerFigures]]) -> list[Row]:
    """A row a worker of the pool; of more than a few, a row a kind, from the least to the most."""
    names = sorted({name for workers in runs for name in workers}, key=_kind_and_number)
    kinds = dict.fromkeys(_kind_and_number(name)[0] for name in names)
    if len(names) <= MOST_WORKERS:
        rows = {name: [name] for name in names}
    else:
        rows = {f"{kind}s": [name for name in names if _kind_and_number(name)[0] == kind] for kind in kinds}
    return [
        (f"  {pool} {label}", [_said([workers[name] for name in of if name in workers]) for workers in runs])
        for label, of in rows.items()
    ]


def _kind_and_number(worker: str) -> tuple[str, int]:
    kind, _, number = worker.rpartition("-")
    return kind, int(number) if number.isdecimal() else 0


def _said(workers: Sequence[WorkerFigures]) -> str:
    """`83% busy, 1.25 GB`, or a range."""
    busy = [worker.busy_share for worker in workers if worker.busy_share is not None]
    memory = [worker.memory_gb for worker in workers if worker.memory_gb is not None]
    parts = [(busy, "{:.0%}", " busy"), (memory, "{:.2f}", " GB")]
    return ", ".join(_range(values, form) + unit for values, form, unit in parts if values)


def _range(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


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
