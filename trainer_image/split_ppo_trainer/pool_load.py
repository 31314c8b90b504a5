"""How well a step used each pool, from the lengths of its pieces, and each worker, from what it says of itself. Pure.

A pool is busy while a piece of the step runs on it:

    actor's pool    gen, old_log_prob, update_actor, update_weights
    critic's pool   values, update_critic
    ref, reward     on whichever pool they sit

    busy_share    busy ÷ step          1 at most: an update that runs on behind the step counts for its own step
    wait_s        step - busy          what the pool stood idle, for the other pool or for the driver
    tokens_per_s  tokens ÷ busy        prompt and response tokens of the step: how fast the pool would go if it never
                                       waited. The slowest pool sets the pace

The time to write a checkpoint is left out of the step.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

PREFIX = "split/pool/"
FIELDS = ("busy_share", "memory_gb", "tokens_per_s", "wait_s")
WORKER_PREFIX = "split/worker/"
WORKER_FIELDS = ("busy_share", "memory_gb")


class Places(Protocol):
    """Pools of the roles; `roles.RolePools` is one."""

    @property
    def actor(self) -> str: ...
    @property
    def ref(self) -> str: ...
    @property
    def critic(self) -> str: ...
    @property
    def reward(self) -> str: ...


def busy_seconds(seconds: Mapping[str, float], places: Places) -> dict[str, float]:
    """Seconds of the step's pieces, by the pool they ran on (`timing_s` names without the prefix)."""
    where = dict.fromkeys(("gen", "old_log_prob", "update_actor", "update_weights"), places.actor)
    where |= {"values": places.critic, "update_critic": places.critic, "ref": places.ref, "reward": places.reward}
    busy: dict[str, float] = {}
    for piece, pool in where.items():
        if piece in seconds:
            busy[pool] = busy.get(pool, 0.0) + seconds[piece]
    return busy


def pool_metrics(seconds: Mapping[str, float], places: Places, *, tokens: float | None) -> dict[str, float]:
    """`split/pool/POOL/…` of one step."""
    step = seconds.get("step", 0.0) - seconds.get("save_checkpoint", 0.0)
    found: dict[str, float] = {}
    if step <= 0:
        return found
    for pool, busy in busy_seconds(seconds, places).items():
        found[f"{PREFIX}{pool}/busy_share"] = min(busy / step, 1.0)
        found[f"{PREFIX}{pool}/wait_s"] = max(step - busy, 0.0)
        if tokens and busy > 0:
            found[f"{PREFIX}{pool}/tokens_per_s"] = tokens / busy
    return found


class WorkerUse(NamedTuple):
    """The share of its time in which a worker had work, and its bytes; None where it can't say."""

    busy_share: float | None
    memory: int | None


def usage_metrics(known: Mapping[str, Mapping[str, WorkerUse | None]]) -> dict[str, float]:
    """`split/worker/POOL/WORKER/…` and the memory of the pools, from what is known of each worker of each pool. A pool's memory
    is told when every worker of it has answered."""
    found: dict[str, float] = {}
    for pool, workers in known.items():
        answered = {name: use for name, use in workers.items() if use is not None}
        for name, use in answered.items():
            if use.busy_share is not None:
                found[f"{WORKER_PREFIX}{pool}/{name}/busy_share"] = use.busy_share
            if use.memory is not None:
                found[f"{WORKER_PREFIX}{pool}/{name}/memory_gb"] = use.memory / 1e9
        sizes = [use.memory for use in answered.values() if use.memory is not None]
        if sizes and len(answered) == len(workers):
            found[f"{PREFIX}{pool}/memory_gb"] = sum(sizes) / 1e9
    return found


def by_pool(metrics: Mapping[str, object]) -> dict[str, dict[str, float]]:
    """The same the other way round, from a step's metrics: {"actor": {"busy_share": …}, …}."""
    return _under(PREFIX, FIELDS, metrics)


def by_worker(metrics: Mapping[str, object]) -> dict[str, dict[str, dict[str, float]]]:
    """{"actor": {"rank-0": {"busy_share": …, "memory_gb": …}, …}, …}."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for path, used in _under(WORKER_PREFIX, WORKER_FIELDS, metrics).items():
        pool, _, worker = path.partition("/")
        found.setdefault(pool, {})[worker] = used
    return found


def _under(prefix: str, fields: tuple[str, ...], metrics: Mapping[str, object]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        path, _, field = name.removeprefix(prefix).rpartition("/")
        if name.startswith(prefix) and field in fields and isinstance(value, int | float):
            found.setdefault(path, {})[field] = float(value)
    return found
