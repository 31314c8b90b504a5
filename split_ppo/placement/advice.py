"""Which split of the same GPUs would be fastest, by how much, and how sure that is.

How sure: a piece that was seen with one number of ranks alone is predicted for others at both ends of what is likely. On GPUs
a doubling of the ranks makes it twice as fast, or 1.6 times; the prediction is in the middle. Slots on the CPU exchange their
parameters on the cores they compute on: what that takes the run has measured, and it is taken to be half of that to twice as
much, the rest well shared out or less so. Where it was not measured: from 1.6 times as fast to not at all. What is around the
training takes a sixth of a core, nothing to twice as much. Generation hardly gains (docs/benchmarks.md has what was measured).
The spread of the measured steps widens both ends. A split is surely better when even its slow end beats the fast end of the
measured step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from split_ppo.api.placement_spec import Device
from split_ppo.placement.cost import Measured, Scaling, fit
from split_ppo.placement.plan import PlacementPlan
from split_ppo.placement.splits import other_splits, split_name

# What the cost model assumes at the fast end, in the middle, at the slow end.
SCALING: dict[Device, tuple[Scaling, Scaling, Scaling]] = {
    "GPU": (Scaling(1.0, 1.0), Scaling(0.85, 0.85), Scaling(0.7, 0.7)),
    "CPU": (
        Scaling(0.7, 0.35, beside_exchange=1.0, exchange=0.5),
        Scaling(0.35, 0.0, beside_exchange=1.0, exchange=1.0, around=0.16),
        Scaling(0.0, 0.0, beside_exchange=0.85, exchange=2.0, around=0.32),
    ),
}


@dataclass(frozen=True)
class Prediction:
    """A placement and its step: the middle of what is likely, and both ends."""

    placement: PlacementPlan
    seconds: float
    low: float
    high: float
    measured: bool = False

    @property
    def split(self) -> str:
        return split_name(self.placement)


@dataclass(frozen=True)
class Advice:
    """Predictions, best first, the measured split among them."""

    measured: Prediction
    ranking: Sequence[Prediction]
    overlap: str

    @property
    def best(self) -> Prediction:
        return self.ranking[0]

    @property
    def stay(self) -> bool:
        return self.best.split == self.measured.split

    @property
    def gain_percent(self) -> float:
        """Of the measured step's time, what the best split would save."""
        return 100 * (1 - self.best.seconds / self.measured.seconds)

    @property
    def sure(self) -> bool:
        if self.stay:
            return all(other.low > self.measured.high for other in self.ranking[1:])
        return self.best.high < self.measured.low

    def sentence(self) -> str:
        now = f"{self.measured.split} takes {self.measured.seconds:.2f} s a step"
        if len(self.ranking) == 1:
            return f"{now}; there is no other split of these GPUs that this layout and these batch sizes allow."
        if self.stay:
            second = self.ranking[1]
            rival = f"the next, {second.split}, is predicted at {_range(second)}"
            return f"{now} and is the best: {rival}. {self._certainty}"
        gain = f"{self.best.split} would take {_range(self.best)}, {self.gain_percent:.0f}% less"
        return f"{now}; {gain}. {self._certainty}"

    @property
    def _certainty(self) -> str:
        if self.sure:
            return "Sure: it holds however well the work scales."
        return "Not sure: the ranges overlap, and a short run on that split would tell."


def advise(runs: Sequence[Measured], settings: Mapping[str, Any], *, spread: float = 0.0) -> Advice:
    """Advice from runs of one job; the first is the one to improve on. `spread`: of its steps, in seconds."""
    current = runs[0]
    models = [fit(runs, scaling=scaling) for scaling in SCALING[current.placement.device]]
    half = spread / 2

    def as_measured(run: Measured) -> Prediction:
        return Prediction(run.placement, run.step, run.step - half, run.step + half, measured=True)

    known = {split_name(run.placement): run for run in reversed(runs)}

    def predicted(placement: PlacementPlan) -> Prediction:
        if split_name(placement) in known:
            return as_measured(known[split_name(placement)])
        fast, middle, slow = (model.step(placement, current.overlap) for model in models)
        return Prediction(placement, middle, min(fast, slow) - half, max(fast, slow) + half)

    measured = as_measured(current)
    others = [predicted(placement) for placement in other_splits(current.placement, settings)]
    ranking = sorted([measured, *others], key=lambda prediction: prediction.seconds)
    return Advice(measured, ranking, current.overlap)


def _range(prediction: Prediction) -> str:
    if prediction.high - prediction.low < 0.02 * prediction.seconds:
        return f"{prediction.seconds:.2f} s"
    return f"{prediction.seconds:.2f} s ({prediction.low:.2f} to {prediction.high:.2f})"
