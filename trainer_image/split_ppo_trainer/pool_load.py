"""How well a step used each pool, from the lengths of its pieces. Pure.

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
from typing import Protocol

PREFIX = "split/pool/"
FIELDS = ("busy_share", "memory_gb", "tokens_per_s", "wait_s")


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


def memory_metrics(taken: Mapping[str, int]) -> dict[str, float]:
    return {f"{PREFIX}{pool}/memory_gb": count / 1e9 for pool, count in taken.items()}


def by_pool(metrics: Mapping[str, object]) -> dict[str, dict[str, float]]:
    """The same the other way round, from a step's metrics: {"actor": {"busy_share": …}, …}."""
    found: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        pool, _, field = name.removeprefix(PREFIX).rpartition("/")
        if name.startswith(PREFIX) and field in FIELDS and isinstance(value, int | float):
            found.setdefault(pool, {})[field] = float(value)
    return found
