"""The other ways to cut the same GPUs: every split that the layout allows and the batch sizes fit, and Colocated.

Nodes stay whole machines of the size they are: with WithinNodes the cut goes through every node alike, with AcrossNodes whole
nodes change sides, which needs nodes that are alike. A pool of the reward model's own keeps what it has.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.api.placement_spec import PoolName
from split_ppo.placement.checks import batches, pools
from split_ppo.placement.checks.case import Case, Check
from split_ppo.placement.plan import PlacementPlan, PoolPlan
from split_ppo.placement.planner import resource_name

_CHECKS: tuple[Check, ...] = (*batches.CHECKS, pools.tensor_parallel_fits, pools.critic_exists)
# The checks ask the job only how its fields are called.
_NAMELESS = SplitPPOJob.model_validate(
    {
        "apiVersion": "splitppo.io/v1alpha1",
        "kind": "SplitPPOJob",
        "metadata": {"name": "any"},
        "spec": {"placement": {}, "training": {"model": {"actor": "any"}, "data": {"train": ["any"]}}},
    }
)


def split_name(plan: PlacementPlan) -> str:
    """`actor 6 + critic 2`, or `Colocated 8`."""
    if plan.mode == "Colocated":
        return f"Colocated {plan.total_gpus}"
    return " + ".join(f"{pool.name} {pool.world_size}" for pool in plan.pools)


def other_splits(plan: PlacementPlan, settings: Mapping[str, Any]) -> list[PlacementPlan]:
    """Every placement of the plan's GPUs that could be started, its own left out."""
    found = [candidate for candidate in _cuts(plan) if split_name(candidate) != split_name(plan)]
    return [candidate for candidate in found if _fits(candidate, settings)]


def _fits(plan: PlacementPlan, settings: Mapping[str, Any]) -> bool:
    case = Case(job=_NAMELESS, plan=plan, settings=dict(settings))
    return not any(True for check in _CHECKS for _ in check(case))


def _cuts(plan: PlacementPlan) -> Iterator[PlacementPlan]:
    kept = tuple(pool for pool in plan.pools if pool.name == "reward")
    cut = [machine for machine in _machines(plan, kept) if machine]
    if len(set(cut)) != 1:
        return  # nodes of different sizes: nothing can be moved without breaking one up
    nodes, per_node = len(cut), cut[0]
    shapes = (
        [((actor,) * nodes, (per_node - actor,) * nodes) for actor in range(1, per_node)]
        if plan.layout == "WithinNodes"
        else [((per_node,) * actor, (per_node,) * (nodes - actor)) for actor in range(1, nodes)]
    )
    roles = plan.roles
    if plan.mode == "Colocated":
        roles = {**roles, "ActorRollout": "actor", "Critic": "critic", "RewardModel": "critic"}
    for actor, critic in shapes:
        halves = (_pool(plan, "actor", actor), _pool(plan, "critic", critic))
        yield plan.model_copy(update={"mode": "Split", "pools": halves + kept, "roles": roles})
    if not kept:
        one = (_pool(plan, "actor", (per_node,) * nodes),)
        yield plan.model_copy(update={"mode": "Colocated", "pools": one, "roles": dict.fromkeys(roles, "actor")})


def _machines(plan: PlacementPlan, kept: tuple[PoolPlan, ...]) -> list[int]:
    """GPUs of each node that are there to be cut."""
    names = {pool.name for pool in kept}
    return [sum(gpus for pool, gpus in node.items() if pool not in names) for node in plan.machines()]


def _pool(plan: PlacementPlan, name: PoolName, gpus: tuple[int, ...]) -> PoolPlan:
    resources = {pool.name: pool.resource for pool in plan.pools}
    return PoolPlan(name=name, resource=resources.get(name, resource_name(name)), gpus=gpus)
