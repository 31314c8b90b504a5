"""Which Ray nodes stand for a plan's pools on one machine, and which of its GPUs each of them gets.

Pure: what the machine has comes in as arguments. A pool's node here is what a pod is on Kubernetes: it carries the
pool's custom resource and label, so that placement is decided by the same means in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from split_ppo.api import GROUP
from split_ppo.placement.plan import PlacementPlan

POOL_LABEL = f"{GROUP}/pool"
# verl's bundles ask for three CPUs a GPU and its helpers for some more. These are Ray's numbers, not cores: a machine
# with two cores has to place everything too.
CPUS_PER_GPU = 3
SPARE_CPUS = 4
HEAD_CPUS = 16
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class LocalNode:
    """One Ray node of the run."""

    name: str
    cpus: int
    gpus: int
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    object_store: int = 128 * MEBIBYTE


class TooFewGpus(Exception):
    """The plan needs more than this machine has; the message is for the user."""


def local_nodes(placement: PlacementPlan, *, gpus: Sequence[str], object_store: int) -> list[LocalNode]:
    """The head, which trains nothing, then one node for every entry of every pool.

    `gpus` are the machine's, by the names that CUDA_VISIBLE_DEVICES takes; each is given to one node. Slots (device
    CPU) are only counted.
    """
    real = placement.device == "GPU"
    if real and placement.total_gpus > len(gpus):
        wanted = ", ".join(f"{pool.name} {pool.world_size}" for pool in placement.pools)
        raise TooFewGpus(
            f"The plan needs {placement.total_gpus} GPUs ({wanted}) and this machine shows {len(gpus)}: "
            "make the pools smaller, or set placement.device: CPU to try it without GPUs."
        )
    left = list(gpus)
    nodes = [LocalNode("head", HEAD_CPUS, 0, environment=visible([]) if real else {}, object_store=object_store)]
    for pool in placement.pools:
        for number, count in enumerate(pool.gpus):
            mine, left = left[:count], left[count:]
            nodes.append(
                LocalNode(
                    name=pool.name if len(pool.gpus) == 1 else f"{pool.name}-{number}",
                    cpus=CPUS_PER_GPU * count + SPARE_CPUS,
                    gpus=count,
                    resources={pool.resource: count},
                    labels={POOL_LABEL: pool.name},
                    environment=visible(mine) if real else {},
                    object_store=object_store,
                )
            )
    return nodes


def visible(gpus: Sequence[str]) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def gpus_of_machine(environment: Mapping[str, str], listing: str) -> list[str]:
    """The GPUs this process may use: what CUDA_VISIBLE_DEVICES leaves of `nvidia-smi -L`."""
    allowed = environment.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return [name.strip() for name in allowed.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    return [str(number) for number in range(sum(line.startswith("GPU ") for line in listing.splitlines()))]


def object_store_bytes(*, shared_memory_free: int, nodes: int, device: str) -> int:
    """Ray's object store per node: toys need little, and /dev/shm is small in containers."""
    share = shared_memory_free // (2 * nodes)
    wanted = 128 * MEBIBYTE if device == "CPU" else 4096 * MEBIBYTE
    return max(min(share, wanted), 80 * MEBIBYTE)  # Ray refuses less than 75 MiB
