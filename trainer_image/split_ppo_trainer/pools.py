"""Resource pools pinned to the Ray nodes that carry a custom resource.

A pool is a list of GPUs per node, `[2, 2]`. verl makes one placement group per entry and assumes that every entry is as
large as the first. A pool that is uneven within itself (`[2, 1]`) is therefore asked for in equal blocks of their
greatest common divisor (`[1, 1, 1]`): same GPUs, same nodes, more placement groups.

Adding a sliver of the custom resource to each bundle is what pins it: verl's RayResourcePool does that for its
`accelerator_type`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from verl.single_controller.ray import RayResourcePool, ResourcePoolManager


def equal_blocks(gpus: Sequence[int]) -> list[int]:
    """`[4, 2]` -> `[2, 2, 2]`."""
    block = math.gcd(*gpus)
    return [block] * (sum(gpus) // block)


@dataclass
class PinnedPools(ResourcePoolManager):  # type: ignore[misc]
    """verl's resource pools, each on the nodes of its custom resource."""

    node_resource: Mapping[str, str] = field(default_factory=dict)

    def create_resource_pool(self) -> None:
        for name, blocks in self.resource_pool_spec.items():
            self.resource_pool_dict[name] = RayResourcePool(
                process_on_nodes=list(blocks),
                use_gpu=True,
                max_colocate_count=self.max_colocate_count,
                name_prefix=name,
                accelerator_type=self.node_resource[name],
            )
        self._check_resource_available()
