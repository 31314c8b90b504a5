"""What a step costs on a placement, from the seconds of its pieces on another.

A piece that a pool works on is taken to last, with n ranks,

    t(n) = (t(1) + 2e(n - 1) ÷ n) ÷ n^a        a = 1: all of the work is shared out; a = 0: none of it

where e is what two ranks would spend on exchanging parameters for all of one rank's micro batches (`exchange.py`), 0 where
that was not measured; n ranks exchange 2(n - 1) ÷ n as much each time. Without e every doubling of the ranks makes a piece 2^a
times as fast. Runs of one job on pools of different sizes give a, by least squares in the logarithms, kept between 0 and 1; e is
part of what they measured. One run gives t at one size; then a is assumed (`scaling`). Advantages and what is left of the step
(`other`: the driver, waiting, polling) do not depend on the ranks, weight sync only by e, which is not shared out.

Where there are no more cores than slots, what is around the training (driver, data queue, Ray's own processes: `around`, in
cores) finds no idle core while every slot works, and holds up whoever works on the one it gets. Ranks that exchange parameters
wait for each other, so what holds up one of them holds up all. So n of N slots lose around · n ÷ N of the time in which all N
work: on one pool every pass and update, else the shorter of the pieces beside each other.

The step is put together from its pieces by what overlaps. g, l, r, v, m: generation, log-probs, reference, values, reward
model; a: advantages; A, C: the updates; s: weight sync; o: other. `prep` = max(l, v), with r and m added to the side of the
pool they run on (r to l by default; m stands alone unless it runs on the critic's pool):

    Colocated, None   g + m + l + r + v + a + C + A + s + o
    Update            g + m + l + r + v + a + max(A, C) + s + o
    Inference         g + m + prep + a + max(A, C) + s + o
    NextGeneration    max(g + prep + a + A + s, v + a + C) + o

The last line is the longest cycle through the step: the critic's update has to be done when the next values begin, not sooner.
So the model gives a measured step back exactly where `other` is what the pieces leave of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import fmean, linear_regression
from typing import NamedTuple

from split_ppo.placement.plan import PlacementPlan, RoleName

# The pieces of a step by verl's names, and the role whose pool works on each.
PIECE_ROLES: dict[str, RoleName] = {
    "gen": "ActorRollout",
    "reward": "RewardModel",
    "old_log_prob": "ActorRollout",
    "ref": "RefPolicy",
    "values": "Critic",
    "update_actor": "ActorRollout",
    "update_critic": "Critic",
    "update_weights": "ActorRollout",
}
# What runs beside each other on two pools, and at which levels.
BESIDE = {
    ("old_log_prob", "values"): ("Inference", "NextGeneration"),
    ("update_actor", "update_critic"): ("Update", "Inference", "NextGeneration"),
}
# Whole on every rank, however many there are.
UNSHARED = ("update_weights",)
OTHER = "other"


@dataclass(frozen=True)
class Measured:
    """A run: where it ran, how far it overlapped, the median seconds of its pieces (verl's names) and of its step."""

    placement: PlacementPlan
    overlap: str
    seconds: Mapping[str, float]
    step: float
    exchange: Mapping[str, float] = field(default_factory=dict)
    """Of each piece, what two ranks would spend on exchanging parameters (`exchange.exchange_seconds`); empty if not known."""
    crowded: bool = False
    """There are no more cores than slots."""

    def ranks(self, piece: str) -> int:
        return self.placement.pool_of(PIECE_ROLES[piece]).world_size


class Scaling(NamedTuple):
    """What is assumed of pieces that were seen at one size alone: exponents, and how many times the measured exchange two ranks
    need. More servers generate with smaller batches each, so that generation may gain less than passes over the whole batch.
    Where the exchange was measured, the exponent has only the rest to stand for. `around`: cores that what is around the training
    takes where it has none to itself."""

    passes: float
    generation: float
    beside_exchange: float = 1.0
    exchange: float = 1.0
    around: float = 0.0


PERFECT = Scaling(passes=1.0, generation=1.0)


@dataclass(frozen=True)
class PieceCost:
    """t(n) = (one + 2·exchange·(n - 1) ÷ n) ÷ n^scaling, and the numbers of ranks it was seen with."""

    one: float
    scaling: float = 0.0
    seen: tuple[int, ...] = ()
    exchange: float = 0.0

    def at(self, ranks: int) -> float:
        return (self.one + self.exchange * exchanged(ranks)) * exp(-self.scaling * log(ranks))


def exchanged(ranks: int) -> float:
    """What each of n ranks gathers from the others, in parts of what each of two does."""
    return 2 * (ranks - 1) / ranks


@dataclass(frozen=True)
class CostModel:
    """The pieces' costs, and what holds them up."""

    pieces: Mapping[str, PieceCost] = field(default_factory=dict)
    around: float = 0.0

    def seconds(self, placement: PlacementPlan, overlap: str) -> dict[str, float]:
        """The pieces on a placement."""
        found = {}
        for piece, cost in self.pieces.items():
            role = PIECE_ROLES.get(piece)
            found[piece] = cost.at(placement.pool_of(role).world_size if role else 1)
        return hold_up(found, placement, overlap, self.around)

    def step(self, placement: PlacementPlan, overlap: str) -> float:
        return step_seconds(self.seconds(placement, overlap), placement, overlap)


def hold_up(seconds: Mapping[str, float], placement: PlacementPlan, overlap: str, around: float) -> dict[str, float]:
    """Pieces as they are without what is around the training -> as they are with it."""
    found = dict(seconds)
    for one, other in _beside(seconds, placement, overlap):
        both = min(seconds[one], seconds[other])
        for piece in (one, other):
            found[piece] += _share(piece, placement, around) * both
    for piece in _on_one_pool(seconds, placement):
        found[piece] *= 1 + around
    return found


def set_free(seconds: Mapping[str, float], placement: PlacementPlan, overlap: str, around: float) -> dict[str, float]:
    """The other way round."""
    found = dict(seconds)
    for pair in _beside(seconds, placement, overlap):
        short, long = sorted(pair, key=lambda piece: seconds[piece])
        found[short] /= 1 + _share(short, placement, around)
        found[long] -= _share(long, placement, around) * found[short]
    for piece in _on_one_pool(seconds, placement):
        found[piece] /= 1 + around
    return found


def _share(piece: str, placement: PlacementPlan, around: float) -> float:
    return around * placement.pool_of(PIECE_ROLES[piece]).world_size / placement.total_gpus


def _beside(seconds: Mapping[str, float], placement: PlacementPlan, overlap: str) -> list[tuple[str, str]]:
    """Pieces that take all slots at the same time on two pools."""
    if placement.roles["Critic"] == placement.roles["ActorRollout"]:
        return []
    return [pair for pair, levels in BESIDE.items() if overlap in levels and all(piece in seconds for piece in pair)]


def _on_one_pool(seconds: Mapping[str, float], placement: PlacementPlan) -> list[str]:
    if placement.roles["Critic"] != placement.roles["ActorRollout"]:
        return []
    return [piece for pair in BESIDE for piece in pair if piece in seconds]


def fit(runs: Sequence[Measured], *, scaling: Scaling = PERFECT) -> CostModel:
    """The model that runs of the same job give; `scaling` for pieces seen at one size alone."""
    around = scaling.around if all(run.crowded for run in runs) else 0.0
    others = [run.step - step_seconds(run.seconds, run.placement, run.overlap) for run in runs]
    runs = [replace(run, seconds=set_free(run.seconds, run.placement, run.overlap, around)) for run in runs]
    pieces: dict[str, PieceCost] = {}
    for name in PIECE_ROLES:
        there = [run for run in runs if run.seconds.get(name, 0.0) > 0]
        if there:
            pieces[name] = _fit_piece(name, there, scaling)
    if advantages := [run.seconds["adv"] for run in runs if run.seconds.get("adv", 0.0) > 0]:
        pieces["adv"] = PieceCost(fmean(advantages))
    return CostModel({**pieces, OTHER: PieceCost(fmean(others))}, around)


def _fit_piece(name: str, runs: Sequence[Measured], scaling: Scaling) -> PieceCost:
    points = [(run.ranks(name), run.seconds[name]) for run in runs]
    sizes = tuple(sorted({ranks for ranks, _ in points}))
    if len(sizes) > 1 and name not in UNSHARED:
        xs, ys = [log(ranks) for ranks, _ in points], [log(seconds) for _, seconds in points]
        exponent = min(max(-linear_regression(xs, ys).slope, 0.0), 1.0)
        return PieceCost(exp(fmean(y + exponent * x for x, y in zip(xs, ys, strict=True))), exponent, sizes)
    known = [run.exchange[name] for run in runs if name in run.exchange]
    exchange = scaling.exchange * fmean(known) if known else 0.0
    if name in UNSHARED:
        exponent = 0.0
    elif name == "gen":
        exponent = scaling.generation
    else:
        exponent = scaling.beside_exchange if known else scaling.passes
    # Never more than was measured in all.
    whole = [(ranks, seconds * ranks**exponent) for ranks, seconds in points]
    exchange = min([exchange, *(seconds / exchanged(ranks) for ranks, seconds in whole if ranks > 1)])
    one = fmean(seconds - exchange * exchanged(ranks) for ranks, seconds in whole)
    return PieceCost(one, exponent, sizes, exchange)


def step_seconds(seconds: Mapping[str, float], placement: PlacementPlan, overlap: str) -> float:
    """The step that these pieces make; see the module's formulas. A missing piece takes no time."""

    def of(*names: str) -> float:
        return sum(seconds.get(name, 0.0) for name in names)

    roles = placement.roles
    critic = roles["Critic"]
    if critic == roles["ActorRollout"] or overlap == "None":
        return of("adv", OTHER, *PIECE_ROLES)
    if overlap == "Update":
        before = of("gen", "reward", "old_log_prob", "ref", "values")
        return before + of("adv", "update_weights", OTHER) + max(of("update_actor"), of("update_critic"))
    beside = ["values"]
    actor = ["old_log_prob"]
    (beside if roles["RefPolicy"] == critic else actor).append("ref")
    prep = max(of(*actor), of(*beside))
    if overlap == "Inference":
        updates = max(of("update_actor"), of("update_critic"))
        return of("gen", "reward", "adv", "update_weights", OTHER) + prep + updates
    actor_cycle = of("gen", "reward", "adv", "update_actor", "update_weights") + prep
    critic_cycle = of("adv", "update_critic", *beside)
    if roles["RewardModel"] == critic:
        critic_cycle += of("reward")
    return max(actor_cycle, critic_cycle) + of(OTHER)
