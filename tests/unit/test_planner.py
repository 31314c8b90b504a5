from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_job, pools
from split_ppo.api.placement_spec import Placement
from split_ppo.placement.plan import PlacementPlan
from split_ppo.placement.planner import cut, plan_placement

ROLES = {"ActorRollout", "RefPolicy", "Critic", "RewardModel"}


def plan(placement: dict[str, Any]) -> PlacementPlan:
    return plan_placement(Placement.model_validate(placement))


def sizes(found: PlacementPlan) -> dict[str, list[int]]:
    return {p.name: list(p.gpus) for p in found.pools}


@pytest.mark.parametrize(
    ("placement", "layout", "expected"),
    [
        ({"total": {"gpusPerNode": 4}}, "WithinNodes", {"actor": [2], "critic": [2]}),
        ({"total": {"gpusPerNode": 3}}, "WithinNodes", {"actor": [2], "critic": [1]}),
        ({"total": {"gpusPerNode": 7}}, "WithinNodes", {"actor": [4], "critic": [3]}),
        ({"total": {"gpusPerNode": 2}}, "WithinNodes", {"actor": [1], "critic": [1]}),
        ({"total": {"gpusPerNode": 4}, "actorFraction": "3/4"}, "WithinNodes", {"actor": [3], "critic": [1]}),
        ({"total": {"gpusPerNode": 8}, "actorFraction": "0.25"}, "WithinNodes", {"actor": [2], "critic": [6]}),
        ({"total": {"gpusPerNode": 8}, "actorFraction": "99/100"}, "WithinNodes", {"actor": [7], "critic": [1]}),
        (
            {"total": {"nodes": 2, "gpusPerNode": 8}, "layout": "WithinNodes"},
            "WithinNodes",
            {"actor": [4, 4], "critic": [4, 4]},
        ),
        ({"total": {"nodes": 2, "gpusPerNode": 8}}, "AcrossNodes", {"actor": [8], "critic": [8]}),
        ({"total": {"nodes": 3, "gpusPerNode": 8}}, "AcrossNodes", {"actor": [8, 8], "critic": [8]}),
        (
            {"total": {"nodes": 4, "gpusPerNode": 1}, "actorFraction": "3/4"},
            "AcrossNodes",
            {"actor": [1, 1, 1], "critic": [1]},
        ),
        ({"total": {"nodes": 2, "gpusPerNode": 4}, "mode": "Colocated"}, "AcrossNodes", {"actor": [4, 4]}),
        (
            {"pools": {"actor": {"nodes": 2, "gpusPerNode": 6}, "critic": {"nodes": 2, "gpusPerNode": 2}}},
            "AcrossNodes",
            {"actor": [6, 6], "critic": [2, 2]},
        ),
        (
            {"pools": {"actor": {"gpusPerNode": 2}, "critic": {"gpusPerNode": 1}, "reward": {"gpusPerNode": 1}}},
            "WithinNodes",
            {"actor": [2], "critic": [1], "reward": [1]},
        ),
        ({"device": "CPU", "total": {"gpusPerNode": 3}}, "WithinNodes", {"actor": [2], "critic": [1]}),
    ],
)
def test_places(placement: dict[str, Any], layout: str, expected: dict[str, list[int]]) -> None:
    found = plan(placement)
    assert (found.layout, sizes(found), found.findings) == (layout, expected, ())


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (
            {"total": {"gpusPerNode": 4}},
            {"ActorRollout": "actor", "RefPolicy": "actor", "Critic": "critic", "RewardModel": "critic"},
        ),
        ({"mode": "Colocated", "total": {"gpusPerNode": 4}}, dict.fromkeys(ROLES, "actor")),
        (
            pools(2, 1, reward=1)["placement"],
            {"ActorRollout": "actor", "RefPolicy": "actor", "Critic": "critic", "RewardModel": "reward"},
        ),
        (
            {**pools(2, 2)["placement"], "roles": {"refPolicy": "critic", "rewardModel": "actor"}},
            {"ActorRollout": "actor", "RefPolicy": "critic", "Critic": "critic", "RewardModel": "actor"},
        ),
        (
            {**pools(2, 2)["placement"], "roles": {"actorRollout": "critic", "critic": "actor"}},
            {"ActorRollout": "critic", "RefPolicy": "critic", "Critic": "actor", "RewardModel": "critic"},
        ),
    ],
)
def test_seats_roles(placement: dict[str, Any], expected: dict[str, str]) -> None:
    assert plan(placement).roles == expected


@pytest.mark.parametrize(
    ("placement", "reason", "words"),
    [
        ({}, "NoPools", ["Neither", "total"]),
        ({"pools": {"actor": {"gpusPerNode": 1}}}, "MissingPool", ["pools.critic", "Colocated"]),
        ({"pools": {}}, "MissingPool", ["declared is none"]),
        (pools(1, 1, total={"gpusPerNode": 2})["placement"], "PoolsAndTotal", ["keep one"]),
        (pools(1, 1, mode="Colocated")["placement"], "PoolsForColocated", ["actor and critic"]),
        ({"total": {"gpusPerNode": 1}}, "TooFewToSplit", ["at least 2 GPUs a node", "has 1"]),
        (
            {"total": {"gpusPerNode": 8}, "layout": "AcrossNodes"},
            "TooFewToSplit",
            ["at least 2", "has 1", "WithinNodes"],
        ),
        (
            {**pools(1, 1)["placement"], "roles": {"rewardModel": "reward"}},
            "UndeclaredPool",
            ["rewardModel", "pools.reward", "actor and critic"],
        ),
        (
            {"mode": "Colocated", "total": {"gpusPerNode": 2}, "roles": {"critic": "critic"}},
            "UndeclaredPool",
            ["critic", "leave roles out"],
        ),
    ],
)
def test_says_what_cannot_be_placed(placement: dict[str, Any], reason: str, words: list[str]) -> None:
    [finding] = plan({k: v for k, v in placement.items() if v is not None}).findings
    assert finding.reason == reason
    for word in words:
        assert word in finding.message


totals = st.fixed_dictionaries(
    {
        "total": st.fixed_dictionaries({"nodes": st.integers(1, 12), "gpusPerNode": st.integers(1, 16)}),
        "layout": st.sampled_from(["WithinNodes", "AcrossNodes", "Auto"]),
        "mode": st.sampled_from(["Split", "Colocated"]),
        "device": st.sampled_from(["GPU", "CPU"]),
    },
    optional={"actorFraction": st.tuples(st.integers(1, 20), st.integers(1, 20)).map(lambda f: f"{f[0]}/{f[1]}")},
)


@given(totals)
def test_no_gpu_is_lost_or_used_twice(placement: dict[str, Any]) -> None:
    found = plan(placement)
    total = placement["total"]
    if found.findings:
        assert found.pools == ()
        return
    assert found.total_gpus == total["nodes"] * total["gpusPerNode"]
    machines = found.machines()
    assert len(machines) == total["nodes"]
    assert all(sum(machine.values()) == total["gpusPerNode"] for machine in machines)
    for pool in found.pools:
        assert sum(machine.get(pool.name, 0) for machine in machines) == pool.world_size
        assert len(set(pool.gpus)) == 1, "a worker group has one pod template"


@given(totals)
def test_every_role_has_exactly_one_declared_pool(placement: dict[str, Any]) -> None:
    found = plan(placement)
    if found.pools:
        assert set(found.roles) == ROLES
        assert set(found.roles.values()) <= {p.name for p in found.pools}


@given(totals.map(lambda p: {k: v for k, v in p.items() if k != "actorFraction"} | {"mode": "Split"}))
def test_the_actor_never_has_fewer_when_halving(placement: dict[str, Any]) -> None:
    found = plan(placement)
    if found.pools:
        actor, critic = found.pools
        assert 0 <= actor.world_size - critic.world_size <= max(actor.gpus_per_node, actor.nodes)


@given(totals)
def test_the_plan_depends_on_the_spec_alone(placement: dict[str, Any]) -> None:
    assert plan(placement) == plan(dict(reversed(list(placement.items()))))


@given(st.integers(2, 1000), st.fractions(0, 2))
def test_cut_always_leaves_one_for_each(units: int, share: Fraction) -> None:
    actor, critic = cut(units, share)
    assert actor >= 1
    assert critic >= 1
    assert actor + critic == units


def test_the_json_shape_is_stable() -> None:
    found = plan_placement(
        make_job({"placement": {"total": {"nodes": 2, "gpusPerNode": 8}, "layout": "WithinNodes"}}).spec.placement
    )
    assert found.model_dump(mode="json") == {
        "mode": "Split",
        "device": "GPU",
        "layout": "WithinNodes",
        "pools": [
            {"name": "actor", "resource": "actor_pool", "gpus": [4, 4]},
            {"name": "critic", "resource": "critic_pool", "gpus": [4, 4]},
        ],
        "roles": {"ActorRollout": "actor", "RefPolicy": "actor", "Critic": "critic", "RewardModel": "critic"},
        "findings": [],
    }
