"""Which pool did what, when, over a few steps. Pure.

A pool is idle where none of its pieces runs. Pieces that began before the window or end after it are cut at its edges.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from split_ppo.compare.figures import timed_steps
from split_ppo.compare.run_record import RunRecord, StepRecord
from split_ppo.placement.cost import PIECE_ROLES

STEPS = 3
# Not part of a step, but pools work on them.
_ACTOR_ONLY = ("testing",)
_EVERY_POOL = ("save_checkpoint",)


@dataclass(frozen=True)
class Piece:
    """A piece of a step on a pool; times in seconds since the window began."""

    name: str
    step: int
    begin: float
    end: float


@dataclass(frozen=True)
class Lane:
    """A pool."""

    pool: str
    gpus: int
    pieces: tuple[Piece, ...]
    idle_share: float


@dataclass(frozen=True)
class Timeline:
    """The window: its length, when each step in it begins, and the pools."""

    seconds: float
    steps: tuple[tuple[int, float], ...]
    lanes: tuple[Lane, ...]


def timeline(run: RunRecord, *, steps: int = STEPS) -> Timeline | None:
    """A few steps from the middle of the run; None for a run that did not write when its pieces began."""
    window = _window(run, steps)
    if not window:
        return None
    begin = window[0].began["step"]
    end = window[-1].began["step"] + window[-1].seconds["step"]
    lanes = []
    for pool in run.plan.placement.pools:
        pieces = tuple(sorted(_pieces(run, pool.name, begin, end), key=lambda piece: piece.begin))
        idle = 1 - _covered(pieces) / (end - begin)
        lanes.append(Lane(pool.name, pool.world_size, pieces, idle))
    starts = tuple((step.number, step.began["step"] - begin) for step in window)
    return Timeline(end - begin, starts, tuple(lanes))


def _window(run: RunRecord, count: int) -> Sequence[StepRecord]:
    known = [step for step in timed_steps(run) if "step" in step.began]
    first = max((len(known) - count) // 2, 0)
    return known[first : first + count]


def _pieces(run: RunRecord, pool: str, begin: float, end: float) -> Iterator[Piece]:
    for step in run.steps:
        for name, began in step.began.items():
            if pool not in _pools_of(run, name):
                continue
            left, right = max(began, begin), min(began + step.seconds.get(name, 0.0), end)
            if left < right:
                yield Piece(name, step.number, left - begin, right - begin)


def _pools_of(run: RunRecord, piece: str) -> tuple[str, ...]:
    placement = run.plan.placement
    if piece in PIECE_ROLES:
        return (placement.roles[PIECE_ROLES[piece]],)
    if piece in _ACTOR_ONLY:
        return (placement.roles["ActorRollout"],)
    return tuple(pool.name for pool in placement.pools) if piece in _EVERY_POOL else ()


def _covered(pieces: Sequence[Piece]) -> float:
    """Seconds in which at least one piece runs; pieces in the order they begin."""
    covered = reached = 0.0
    for piece in pieces:
        covered += max(piece.end - max(piece.begin, reached), 0.0)
        reached = max(reached, piece.end)
    return covered
