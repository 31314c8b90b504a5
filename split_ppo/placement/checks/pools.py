"""Checks on pools and roles: does every GPU have work, and does every role fit its pool?"""

from collections import Counter
from collections.abc import Iterator

from split_ppo.placement.checks.case import Case, Check, finding
from split_ppo.placement.plan import Finding

# verl puts up to three workers on a GPU and reserves a CPU for each (`max_colocate_count`).
CPUS_PER_GPU = 3
_RESERVED = {"cpu", "memory", "object_store_memory"}


def fraction_has_total(case: Case) -> Iterator[Finding]:
    placement = case.spec.placement
    if placement.actor_fraction is None:
        return
    if placement.total is None:
        yield finding(
            "FractionWithoutTotal",
            "placement.actorFraction",
            f'actorFraction "{placement.actor_fraction}" says how total is cut, but pools are given one by one: '
            "remove it, or give total instead of pools.",
        )
    elif "/" in placement.actor_fraction:
        part, whole = (int(n) for n in placement.actor_fraction.split("/"))
        if part >= whole:
            yield finding(
                "FractionTooLarge",
                "placement.actorFraction",
                f'actorFraction "{placement.actor_fraction}" leaves nothing for the critic: use less than 1, such as "3/4".',
            )


def critic_exists(case: Case) -> Iterator[Finding]:
    if case.plan.mode != "Split" or case.has_critic:
        return
    estimator = case.setting("algorithm.adv_estimator")
    asked = "critic.enable is false" if case.setting("critic.enable") is not None else f"adv_estimator is {estimator}"
    yield finding(
        "NoCritic",
        "training.config",
        f"{asked}, which trains no critic, so there is nothing to put on a critic pool and nothing to overlap: use "
        "adv_estimator gae, or mode: Colocated, or a tool made for estimators without a critic.",
    )


def every_pool_has_work(case: Case) -> Iterator[Finding]:
    # Without a critic its pool has no work either, and `critic_exists` has said so.
    if not case.placed or not case.has_critic:
        return
    busy = {case.plan.roles[role] for role in case.used_roles()}
    for pool in case.plan.pools:
        if pool.name in busy:
            continue
        hint = (
            "set training.reward.model, or remove the pool"
            if pool.name == "reward"
            else "move a role there, or remove it"
        )
        yield finding(
            "IdlePool",
            f"placement.pools.{pool.name}",
            f"Pool {pool.name} has {pool.world_size} {case.plan.device}(s) and no role that is used: {hint}.",
        )


def tensor_parallel_fits(case: Case) -> Iterator[Finding]:
    if not case.placed:
        return
    asked = case.number("actor_rollout_ref.rollout.tensor_model_parallel_size", "training.rollout.tensorParallelSize")
    if asked is not None:
        yield from _divides(case, "ActorRollout", asked.value, asked.field)
    reward = case.number(
        "reward.reward_model.rollout.tensor_model_parallel_size", "training.reward.model.tensorParallelSize"
    )
    if case.has_reward_model and reward is not None:
        yield from _divides(case, "RewardModel", reward.value, reward.field)


def _divides(case: Case, role: str, size: int, field: str) -> Iterator[Finding]:
    pool = case.plan.pool_of(role)  # type: ignore[arg-type]
    if pool.gpus_per_node % size == 0:
        return
    fitting = [n for n in range(1, pool.gpus_per_node + 1) if pool.gpus_per_node % n == 0]
    yield finding(
        "TensorParallelSize",
        field,
        f"{field} is {size}, but pool {pool.name} has {pool.gpus_per_node} {case.plan.device}(s) a node, which {size} does not "
        f"divide: use {_or(fitting)}, or give the pool a multiple of {size}.",
    )


def cpus_are_enough(case: Case) -> Iterator[Finding]:
    placement = case.spec.placement
    shapes = {"total": placement.total} if placement.total else {}
    if placement.pools:
        shapes = {f"pools.{p.name}": getattr(placement.pools, p.name) for p in case.plan.pools}
    for name, shape in shapes.items():
        if shape is not None and shape.cpus_per_gpu < CPUS_PER_GPU:
            yield finding(
                "TooFewCPUs",
                f"placement.{name}.cpusPerGPU",
                f"cpusPerGPU is {shape.cpus_per_gpu}; verl reserves {CPUS_PER_GPU} CPUs for every GPU (a pod gets one more for "
                f"itself), and with fewer its workers would wait for ever: use {CPUS_PER_GPU} or more.",
            )


def resource_names_work(case: Case) -> Iterator[Finding]:
    for pool in case.plan.pools:
        field = f"placement.pools.{pool.name}.resource"
        if pool.resource.lower().endswith("gpu"):
            yield finding(
                "ResourceName",
                field,
                f"The resource {pool.resource} of pool {pool.name} ends in gpu, and KubeRay takes every such name for GPUs, so "
                f"the pool could not be told apart: call it {pool.name}_pool.",
            )
        elif pool.resource.lower() in _RESERVED:
            yield finding(
                "ResourceName",
                field,
                f"The resource {pool.resource} of pool {pool.name} is one of Ray's own: call it {pool.name}_pool.",
            )
    for name, count in Counter(p.resource for p in case.plan.pools).items():
        if count > 1:
            users = " and ".join(p.name for p in case.plan.pools if p.resource == name)
            yield finding(
                "ResourceName",
                "placement.pools",
                f"The pools {users} share the resource {name}, so Ray could not tell them apart: give each its own.",
            )


def _or(values: list[int]) -> str:
    return " or ".join([", ".join(map(str, values[:-1])), str(values[-1])] if len(values) > 1 else [str(values[0])])


CHECKS: tuple[Check, ...] = (
    fraction_has_total,
    critic_exists,
    every_pool_has_work,
    tensor_parallel_fits,
    cpus_are_enough,
    resource_names_work,
)
