"""From a placement spec to a plan. Integers in, integers out; depends on the spec alone.

Cutting a total of N units (GPUs of a node with WithinNodes, whole nodes with AcrossNodes) for the actor's share f:

    actor = clamp(floor(N·f + 1/2), 1, N - 1)      critic = N - actor

With f = 1/2 that gives the odd unit to the actor (3 -> 2+1, 7 -> 4+3), and each pool always gets at least one. A total is cut
the same way on every node, so a pool's pods are alike.
"""

from fractions import Fraction
from math import floor

from split_ppo.api.placement_spec import POOL_NAMES, Placement, PoolName
from split_ppo.placement.plan import ConcreteLayout, Finding, PlacementPlan, PoolPlan, RoleName

HALF = Fraction(1, 2)


def plan_placement(spec: Placement) -> PlacementPlan:
    """The plan; with a finding and what could be understood where the spec can't be placed."""
    layout = choose_layout(spec)
    if spec.pools is not None and spec.total is not None:
        finding = Finding(
            reason="PoolsAndTotal",
            field="spec.placement",
            message="Both pools and total are given; pools says who gets what, total is split for you: keep one of them.",
        )
        return _plan(spec, layout, (), (finding,))
    if spec.pools is not None:
        declared = [(name, getattr(spec.pools, name)) for name in POOL_NAMES]
        pools = tuple(
            PoolPlan(name=n, resource=p.resource or resource_name(n), gpus=(p.gpus_per_node,) * p.nodes)
            for n, p in declared
            if p is not None
        )
        return _plan(spec, layout, pools, tuple(_missing_pools(spec, pools)))
    if spec.total is None:
        finding = Finding(
            reason="NoPools",
            field="spec.placement",
            message="Neither pools nor total is given, so there are no GPUs to place anything on: "
            "add total: {nodes: 1, gpusPerNode: 4}, or pools.actor and pools.critic.",
        )
        return _plan(spec, layout, (), (finding,))
    nodes, per_node = spec.total.nodes, spec.total.gpus_per_node
    if spec.mode == "Colocated":
        return _plan(spec, layout, (_pool("actor", nodes, per_node),), ())
    within = layout == "WithinNodes"
    units = per_node if within else nodes
    if units < 2:
        return _plan(spec, layout, (), (_too_small(spec, layout),))
    actor, critic = cut(units, Fraction(spec.actor_fraction) if spec.actor_fraction else HALF)
    if within:
        return _plan(spec, layout, (_pool("actor", nodes, actor), _pool("critic", nodes, critic)), ())
    return _plan(spec, layout, (_pool("actor", actor, per_node), _pool("critic", critic, per_node)), ())


def choose_layout(spec: Placement) -> ConcreteLayout:
    """Auto is WithinNodes where everything fits on one node, and AcrossNodes on more."""
    if spec.layout != "Auto":
        return spec.layout
    if spec.total is not None:
        return "WithinNodes" if spec.total.nodes == 1 else "AcrossNodes"
    pools = spec.pools.model_dump(exclude_none=True).values() if spec.pools else ()
    return "WithinNodes" if all(p["nodes"] == 1 for p in pools) else "AcrossNodes"


def cut(units: int, actor_share: Fraction) -> tuple[int, int]:
    """Units for the actor and for the critic; see the module's formula."""
    actor = min(max(floor(units * actor_share + HALF), 1), units - 1)
    return actor, units - actor


def resource_name(pool: PoolName) -> str:
    # Never `<pool>_gpu`: KubeRay would take it for GPUs.
    return f"{pool}_pool"


def _pool(name: PoolName, nodes: int, gpus_per_node: int) -> PoolPlan:
    return PoolPlan(name=name, resource=resource_name(name), gpus=(gpus_per_node,) * nodes)


def _plan(
    spec: Placement, layout: ConcreteLayout, pools: tuple[PoolPlan, ...], findings: tuple[Finding, ...]
) -> PlacementPlan:
    roles, role_findings = _roles(spec, {p.name for p in pools}) if pools else ({}, ())
    return PlacementPlan(
        mode=spec.mode,
        device=spec.device,
        layout=layout,
        pools=pools,
        roles=roles,
        findings=findings + (role_findings if not findings else ()),
    )


def _roles(spec: Placement, declared: set[PoolName]) -> tuple[dict[RoleName, PoolName], tuple[Finding, ...]]:
    colocated = spec.mode == "Colocated"
    critic: PoolName = "actor" if colocated else "critic"
    asked: dict[RoleName, tuple[str, PoolName]] = {
        "ActorRollout": ("actorRollout", spec.roles.actor_rollout or "actor"),
        "RefPolicy": ("refPolicy", spec.roles.ref_policy or spec.roles.actor_rollout or "actor"),
        "Critic": ("critic", spec.roles.critic or critic),
        "RewardModel": ("rewardModel", spec.roles.reward_model or ("reward" if "reward" in declared else critic)),
    }
    findings = tuple(
        Finding(
            reason="UndeclaredPool",
            field=f"spec.placement.roles.{field}",
            message=f"Role {field} asks for the pool {pool}; declared {_are(sorted(declared))}. "
            + (
                "Colocated puts every role on actor: leave roles out."
                if colocated
                else f"Add pools.{pool}, or choose a declared one."
            ),
        )
        for field, pool in asked.values()
        if pool not in declared
    )
    return {role: pool for role, (_, pool) in asked.items()}, findings


def _missing_pools(spec: Placement, pools: tuple[PoolPlan, ...]) -> list[Finding]:
    names = [p.name for p in pools]
    field = "spec.placement.pools"
    if spec.mode == "Colocated":
        if names == ["actor"]:
            return []
        message = f"Colocated puts every role on the one pool actor; declared {_are(names)}. "
        message += "Keep pools.actor alone, or use total."
        return [Finding(reason="PoolsForColocated", field=field, message=message)]
    missing = [n for n in ("actor", "critic") if n not in names]
    if not missing:
        return []
    message = (
        f"Split needs the pools actor and critic; declared {_are(names)}. "
        f"Add {' and '.join(f'pools.{n}' for n in missing)}, or set mode: Colocated to put every role on pools.actor."
    )
    return [Finding(reason="MissingPool", field=field, message=message)]


def _too_small(spec: Placement, layout: ConcreteLayout) -> Finding:
    assert spec.total is not None
    nodes, per_node = spec.total.nodes, spec.total.gpus_per_node
    if layout == "AcrossNodes":
        message = f"AcrossNodes gives each pool whole nodes and needs at least 2; total has {nodes}. "
        message += "Use layout: WithinNodes, or more nodes."
    else:
        message = f"Two pools on every node need at least 2 {spec.device}s a node; total has {per_node}. "
        message += "Use more of them, layout: AcrossNodes with 2 nodes, or mode: Colocated."
    return Finding(reason="TooFewToSplit", field="spec.placement.total", message=message)


def _are(names: list[PoolName]) -> str:
    if not names:
        return "is none"
    return ("is " if len(names) == 1 else "are ") + " and ".join(names)
