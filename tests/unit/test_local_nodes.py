"""Which Ray nodes stand for a plan on one machine, and which GPUs they get."""

import pytest

from split_ppo.placement.plan import PlacementPlan
from split_ppo_trainer.local_nodes import (
    MEBIBYTE,
    TooFewGpus,
    gpus_of_machine,
    local_nodes,
    object_store_bytes,
)


def placement(device: str, **pools: tuple[int, ...]) -> PlacementPlan:
    return PlacementPlan.model_validate(
        {
            "mode": "Split",
            "device": device,
            "layout": "WithinNodes",
            "pools": [{"name": name, "resource": f"{name}_pool", "gpus": gpus} for name, gpus in pools.items()],
            "roles": {"ActorRollout": "actor", "Critic": "critic"},
        }
    )


def test_every_gpu_goes_to_one_node_and_the_head_sees_none() -> None:
    nodes = local_nodes(placement("GPU", actor=(2, 2), critic=(1,)), gpus=["0", "1", "2", "3", "4"], object_store=1)
    seen = {node.name: node.environment["CUDA_VISIBLE_DEVICES"] for node in nodes}
    assert seen == {"head": "", "actor-0": "0,1", "actor-1": "2,3", "critic": "4"}


def test_nodes_carry_their_pools_resource_and_label() -> None:
    head, actor, critic = local_nodes(placement("CPU", actor=(2,), critic=(1,)), gpus=[], object_store=1)
    assert (head.gpus, head.resources, head.labels) == (0, {}, {})
    assert (actor.gpus, actor.resources, actor.labels) == (2, {"actor_pool": 2}, {"splitppo.io/pool": "actor"})
    assert (critic.gpus, critic.resources, critic.labels) == (1, {"critic_pool": 1}, {"splitppo.io/pool": "critic"})


def test_slots_need_no_gpu_and_hide_none() -> None:
    assert all(node.environment == {} for node in local_nodes(placement("CPU", actor=(8,)), gpus=[], object_store=1))


def test_verls_bundles_fit_on_every_node() -> None:
    for node in local_nodes(placement("CPU", actor=(8, 8), critic=(3,)), gpus=[], object_store=1)[1:]:
        assert node.cpus >= 3 * node.gpus + 1


def test_too_few_gpus_is_a_sentence_with_both_numbers() -> None:
    with pytest.raises(TooFewGpus, match=r"needs 3 GPUs \(actor 2, critic 1\) and this machine shows 2"):
        local_nodes(placement("GPU", actor=(2,), critic=(1,)), gpus=["0", "1"], object_store=1)


@pytest.mark.parametrize(
    ("environment", "listing", "expected"),
    [
        ({}, "GPU 0: A100 (UUID: GPU-a)\nGPU 1: A100 (UUID: GPU-b)\n", ["0", "1"]),
        ({}, "", []),
        ({"CUDA_VISIBLE_DEVICES": "3, 5"}, "GPU 0: A100\n", ["3", "5"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a"}, "", ["GPU-a"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, "GPU 0: A100\n", []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "GPU 0: A100\n", []),
    ],
)
def test_the_machines_gpus(environment: dict[str, str], listing: str, expected: list[str]) -> None:
    assert gpus_of_machine(environment, listing) == expected


def test_object_stores_together_take_half_of_shared_memory_at_most() -> None:
    assert object_store_bytes(shared_memory_free=1 << 40, nodes=3, device="CPU") == 128 * MEBIBYTE
    assert object_store_bytes(shared_memory_free=6000 * MEBIBYTE, nodes=3, device="GPU") == 1000 * MEBIBYTE
    assert object_store_bytes(shared_memory_free=64 * MEBIBYTE, nodes=3, device="CPU") == 80 * MEBIBYTE
