"""PNG files for slides and papers, with matplotlib (`pip install 'split-ppo[report]'`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from split_ppo.compare.drawings import COLOURS
from split_ppo.compare.figures import PIECES, RunFigures, figures
from split_ppo.compare.run_record import RunRecord


def write_plots(runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """reward.png, phases.png and pools.png in `folder`, which is made if need be."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    found = [figures(run) for run in runs]
    return [
        _save(folder / "reward.png", lambda axes: _reward(axes, runs)),
        _save(folder / "phases.png", lambda axes: _phases(axes, found)),
        _save(folder / "pools.png", lambda axes: _pools(axes, found)),
    ]


def _save(path: Path, draw: Any) -> Path:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def _reward(axes: Any, runs: Sequence[RunRecord]) -> None:
    for run in runs:
        points = [(step.number, step.reward) for step in run.steps if step.reward is not None]
        axes.plot([number for number, _ in points], [reward for _, reward in points], label=run.name)
    axes.set(xlabel="step", ylabel="mean reward")
    axes.legend(frameon=False)


def _phases(axes: Any, runs: Sequence[RunFigures]) -> None:
    names = [run.name for run in runs]
    base = [0.0] * len(runs)
    for piece in PIECES:
        seconds = [run.seconds.get(piece, 0.0) for run in runs]
        if any(seconds):
            axes.bar(names, seconds, bottom=base, color=COLOURS[piece], label=piece, width=0.6)
            base = [low + high for low, high in zip(base, seconds, strict=True)]
    places = range(len(runs))
    axes.hlines(
        [run.step for run in runs], [x - 0.35 for x in places], [x + 0.35 for x in places], color="black", label="step"
    )
    axes.set(ylabel="seconds (median)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _pools(axes: Any, runs: Sequence[RunFigures]) -> None:
    bars = [(f"{run.name}\n{pool}", found.busy_share or 0.0) for run in runs for pool, found in run.pools.items()]
    axes.bar([label for label, _ in bars], [100 * share for _, share in bars], color=COLOURS["gen"], width=0.6)
    axes.set(ylabel="busy, % of the step", ylim=(0, 100))
