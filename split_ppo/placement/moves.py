"""When to move a run to another split, so that it never flaps.

    gain(s) = 1 - s ÷ current step

1. If a split that the run has left was measured faster by at least `min_gain`, the move was a mistake: go back to the fastest of
   those and stay there for good.
2. Else go to the best predicted split that was never tried, if its gain is at least `min_gain`. Should the prediction be wrong,
   rule 1 takes it back.
3. Else stay.

A split is entered by rule 2 at most once and by rule 1 at most once in a run, which then ends all moving: with n splits there are
at most n moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from split_ppo.placement.advice import Advice
from split_ppo.placement.plan import PlacementPlan


@dataclass(frozen=True)
class Move:
    """Where to, why, and whether the run stays there."""

    placement: PlacementPlan
    final: bool
    sentence: str


def next_move(advice: Advice, tried: Mapping[str, float], *, min_gain_percent: float) -> Move | None:
    """The move that the advice calls for; `tried` has the measured step of each split that the run has left."""
    now = advice.measured
    enough = now.seconds * (1 - min_gain_percent / 100)
    known = {prediction.split: prediction for prediction in advice.ranking}
    better = {split: seconds for split, seconds in tried.items() if seconds <= enough and split in known}
    if better:
        split = min(better, key=lambda name: better[name])
        sentence = (
            f"{now.split} takes {now.seconds:.2f} s a step, {split} took {better[split]:.2f} s: back to it, for good."
        )
        return Move(known[split].placement, final=True, sentence=sentence)
    for prediction in advice.ranking:
        if prediction is now or prediction.split in tried:
            continue
        if prediction.seconds <= enough:
            sentence = (
                f"{now.split} takes {now.seconds:.2f} s a step; {prediction.split} is predicted to take "
                f"{prediction.seconds:.2f} s ({prediction.low:.2f} to {prediction.high:.2f}): moving to it."
            )
            return Move(prediction.placement, final=False, sentence=sentence)
    return None
