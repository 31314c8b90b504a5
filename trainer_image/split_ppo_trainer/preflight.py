"""Are the pools there? Asked before verl starts, because verl asks Ray for them and then waits for ever without a word.

`missing` decides from what Ray reports, purely; `wait_for_pools` asks Ray again until nothing is missing or the
deadline is over.

What a pool needs on each of its nodes: its custom resource, its GPUs (slots on the CPU), and three CPUs per GPU, which
is what verl's bundles ask for; the actor's nodes one CPU more, for TransferQueue's storage.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from split_ppo.placement.plan import PlacementPlan, PoolPlan

CPUS_PER_GPU = 3
STORAGE_CPUS = 1
LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class Node:
    """A live Ray node and what is free on it."""

    name: str
    free: Mapping[str, float]


@dataclass(frozen=True)
class Shortfall:
    """One thing that is missing."""

    pool: str
    resource: str
    have: float
    need: float
    sentence: str


def missing(placement: PlacementPlan, nodes: Sequence[Node]) -> list[Shortfall]:
    """Everything that keeps the pools from being placed; empty when they fit."""
    actor = placement.roles["ActorRollout"]
    left = {node.name: dict(node.free) for node in nodes}
    found: list[Shortfall] = []
    for pool in placement.pools:
        extra = STORAGE_CPUS if pool.name == actor else 0
        found += _missing_of(pool, left, extra_cpus=extra)
    return found


def _missing_of(pool: PoolPlan, left: dict[str, dict[str, float]], *, extra_cpus: int) -> list[Shortfall]:
    """What this pool lacks; what it can have is taken out of `left`."""
    carriers = [name for name, free in left.items() if free.get(pool.resource, 0) > 0]
    if len(carriers) < len(pool.gpus):
        sentence = (
            f"Pool {pool.name} needs {_count(len(pool.gpus), 'Ray node')} with resource {pool.resource}; "
            f"there {'is' if len(carriers) == 1 else 'are'} {len(carriers) or 'none'}."
        )
        return [Shortfall(pool.name, pool.resource, len(carriers), len(pool.gpus), sentence)]
    found = []
    open_carriers = sorted(carriers, key=lambda name: -left[name].get("GPU", 0))
    for gpus in sorted(pool.gpus, reverse=True):
        needs = {"GPU": float(gpus), "CPU": float(CPUS_PER_GPU * gpus + extra_cpus)}
        fitting = next((n for n in open_carriers if all(left[n].get(k, 0) >= v for k, v in needs.items())), None)
        taken = fitting or open_carriers[0]
        open_carriers.remove(taken)
        if fitting is None:
            found += [
                _short(pool, taken, resource, left[taken].get(resource, 0), need)
                for resource, need in needs.items()
                if left[taken].get(resource, 0) < need
            ]
        for resource, need in needs.items():
            left[taken][resource] = left[taken].get(resource, 0) - need
    return found


def _short(pool: PoolPlan, node: str, resource: str, have: float, need: float) -> Shortfall:
    why = f" ({CPUS_PER_GPU} for each GPU, one for the data queue on the actor's nodes)" if resource == "CPU" else ""
    sentence = (
        f"Pool {pool.name} needs {_count(need, resource)}{why} on node {node}, which carries {pool.resource}; "
        f"{_count(max(have, 0), resource)} {'is' if have == 1 else 'are'} free there."
    )
    return Shortfall(pool.name, resource, max(have, 0), need, sentence)


def _count(number: float, thing: str) -> str:
    return f"{number:g} {thing}{'' if number == 1 else 's'}"


def wait_for_pools(
    placement: PlacementPlan,
    *,
    seconds: float,
    look: Callable[[], Sequence[Node]],
    say: Callable[[Sequence[Shortfall]], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> list[Shortfall]:
    """What is still missing at the deadline; empty as soon as nothing is. `say` hears what is waited for whenever it changes."""
    deadline = clock() + seconds
    said: list[Shortfall] | None = None
    while True:
        lacking = missing(placement, look())
        if not lacking:
            return []
        if lacking != said:
            say(lacking)
            said = lacking
        left = deadline - clock()
        if left <= 0:
            return lacking
        pause(min(LOOK_EVERY_S, left))


def ray_nodes() -> list[Node]:
    """Live nodes of the Ray cluster and what is free on them."""
    import ray
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    return [
        Node(f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})", free.get(node["NodeID"], {}))
        for node in ray.nodes()
        if node["Alive"]
    ]
