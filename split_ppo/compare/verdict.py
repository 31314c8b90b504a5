"""Who was faster, by how much, and whether that is more than chance. Pure.

A difference counts as clear when it is larger than the spread of either run (the distance between the quartiles of its steps).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from split_ppo.compare.figures import RunFigures
from split_ppo.compare.run_record import RunRecord
from split_ppo.verl_config import leaves

FEWEST_STEPS = 4
# Where a run keeps its files, and how long it goes on, say nothing about its speed.
_OWN = ("trainer.default_local_dir", "trainer.total_epochs", "trainer.total_training_steps", "trainer.save_freq",
        "trainer.resume_mode", "reward.custom_reward_function.path")  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The fastest run against another."""

    fastest: str
    other: str
    seconds: float
    other_seconds: float
    spread: float
    enough_steps: bool

    @property
    def ratio(self) -> float:
        return self.other_seconds / self.seconds

    @property
    def clear(self) -> bool:
        return self.enough_steps and self.other_seconds - self.seconds > self.spread

    def sentence(self) -> str:
        difference = self.other_seconds - self.seconds
        said = (
            f"{self.fastest} was faster than {self.other}: {self.seconds:.2f} s a step against {self.other_seconds:.2f} s, "
            f"{self.ratio:.2f} times as fast."
        )
        if not self.enough_steps:
            return f"{said} Fewer than {FEWEST_STEPS} timed steps: too few to say whether that is chance."
        if self.clear:
            return f"{said} The difference of {difference:.2f} s is larger than the runs' own spread ({self.spread:.2f} s)."
        return (
            f"{said} The difference of {difference:.2f} s is not larger than the runs' own spread ({self.spread:.2f} s): "
            "it may be chance."
        )


def verdicts(runs: Sequence[RunFigures]) -> list[Verdict]:
    """The fastest against each of the others, in the order they were given."""
    fastest = min(runs, key=lambda run: run.step)
    return [
        Verdict(
            fastest=fastest.name,
            other=run.name,
            seconds=fastest.step,
            other_seconds=run.step,
            spread=max(fastest.spread, run.spread),
            enough_steps=min(fastest.timed_steps, run.timed_steps) >= FEWEST_STEPS,
        )
        for run in runs
        if run is not fastest
    ]


def differences(runs: Sequence[RunRecord]) -> list[str]:
    """Settings that are not the same in all runs, a sentence each: a comparison of speed should know of them."""
    settings = [_settings(run) for run in runs]
    paths = sorted({path for known in settings for path in known})
    return [
        f"{path} differs: "
        + ", ".join(f"{run.name} {values.get(path)!r}" for run, values in zip(runs, settings, strict=True))
        for path in paths
        if len({repr(values.get(path)) for values in settings}) > 1
    ]


def _settings(run: RunRecord) -> Mapping[str, Any]:
    return dict(_kept(run.plan.verl))


def _kept(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, value in leaves(dict(settings)):
        if path not in _OWN:
            yield path, value
