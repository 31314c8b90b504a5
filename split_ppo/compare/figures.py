"""What a run's steps come to: medians, spread, pools. Pure.

Medians leave the first step out, which pays for what later ones reuse. The spread of a run is the distance between the
quartiles of its steps: half of them lie within it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from split_ppo.compare.run_record import RunRecord, StepRecord
from split_ppo.placement.cost import PIECE_ROLES, Measured
from split_ppo.placement.exchange import exchange_seconds
from split_ppo_trainer.summary import WARM_UP_STEPS

# The pieces in the order of a step, as a table shows them.
PIECES = (
    "gen", "reward", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor", "update_weights",
)  # fmt: skip


@dataclass(frozen=True)
class WorkerFigures:
    """A rank or a server: share of its time with work, and memory; None where it did not say."""

    busy_share: float | None
    memory_gb: float | None


@dataclass(frozen=True)
class PoolFigures:
    """A pool: share of the step it worked, and what the trainer and its workers told of it."""

    gpus: int
    busy_share: float | None
    wait_s: float | None
    tokens_per_s: float | None
    memory_gb: float | None
    workers: Mapping[str, WorkerFigures]


@dataclass(frozen=True)
class RunFigures:
    """A run in numbers."""

    name: str
    title: str
    steps: int
    timed_steps: int
    step: float
    spread: float
    seconds: Mapping[str, float]
    overlap_efficiency: float | None
    first_reward: float | None
    last_reward: float | None
    best_reward: float | None
    pools: Mapping[str, PoolFigures]


def timed_steps(run: RunRecord) -> tuple[StepRecord, ...]:
    """The steps that medians are made of."""
    timed = tuple(step for step in run.steps if step.step is not None)
    return timed[WARM_UP_STEPS:] or timed


def figures(run: RunRecord) -> RunFigures:
    """The run in numbers."""
    timed = timed_steps(run)
    steps = [step.step for step in timed if step.step is not None]
    rewards = [step.reward for step in run.steps if step.reward is not None]
    return RunFigures(
        name=run.name,
        title=run.title,
        steps=len(run.steps),
        timed_steps=len(steps),
        step=median(steps) if steps else 0.0,
        spread=quartile_distance(steps),
        seconds={piece: middle for piece in PIECES if (middle := _median(s.seconds.get(piece) for s in timed))},
        overlap_efficiency=_median(step.efficiency for step in timed),
        first_reward=rewards[0] if rewards else None,
        last_reward=rewards[-1] if rewards else None,
        best_reward=max(rewards) if rewards else None,
        pools={pool.name: _pool(run, timed, pool.name, pool.world_size) for pool in run.plan.placement.pools},
    )


def measured(run: RunRecord) -> Measured:
    """The run as the cost model wants it."""
    found = figures(run)
    placement, machine = run.plan.placement, run.machine
    return Measured(
        placement,
        run.plan.overlap,
        found.seconds,
        found.step,
        exchange=exchange_seconds(machine.exchange, run.plan.verl),
        crowded=machine.cores is not None and machine.cores <= placement.total_gpus,
    )


def quartile_distance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def _pool(run: RunRecord, timed: Sequence[StepRecord], name: str, gpus: int) -> PoolFigures:
    def told(field: str) -> float | None:
        return _median(step.pools.get(name, {}).get(field) for step in timed)

    busy = told("busy_share")
    return PoolFigures(
        gpus=gpus,
        busy_share=busy if busy is not None else _median(_busy_share(run, step, name) for step in timed),
        wait_s=told("wait_s"),
        tokens_per_s=told("tokens_per_s"),
        memory_gb=told("memory_gb"),
        workers=_workers([step.workers.get(name, {}) for step in timed]),
    )


def _workers(steps: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, WorkerFigures]:
    """Medians of one pool's workers."""

    def told(worker: str, field: str) -> float | None:
        return _median(step.get(worker, {}).get(field) for step in steps)

    names = dict.fromkeys(worker for step in steps for worker in step)
    return {name: WorkerFigures(told(name, "busy_share"), told(name, "memory_gb")) for name in names}


def _busy_share(run: RunRecord, step: StepRecord, pool: str) -> float | None:
    """For runs of before the trainer told it: pieces on the pool ÷ step."""
    roles = run.plan.placement.roles
    busy = sum(step.seconds.get(piece, 0.0) for piece, role in PIECE_ROLES.items() if roles[role] == pool)
    return min(busy / step.step, 1.0) if step.step else None


def _median(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return median(there) if there else None
