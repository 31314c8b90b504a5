"""A Ray cluster of several nodes on this machine, as a plan wants it: one head and the nodes of each pool."""

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from split_ppo.placement.plan import PlacementPlan

OBJECT_STORE = 128 << 20


class LocalCluster:
    """Ray's own multi-node test cluster, with a node for each entry of each pool."""

    def __init__(self, placement: PlacementPlan) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 4,
                "num_gpus": 0,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE,
            },
        )
        self.nodes: dict[str, list[Any]] = {pool.name: [] for pool in placement.pools}
        for pool in placement.pools:
            for gpus in pool.gpus:
                self.add(pool.name, {pool.resource: gpus}, gpus=gpus, cpus=3 * gpus + 1)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, pool: str, resources: Mapping[str, float], *, gpus: int, cpus: int) -> None:
        node = self._cluster.add_node(
            num_cpus=cpus, num_gpus=gpus, resources=dict(resources), object_store_memory=OBJECT_STORE
        )
        self.nodes.setdefault(pool, []).append(node)

    def lose(self, pool: str) -> None:
        """Kill a node of the pool, processes and all, as a machine that loses power."""
        self._cluster.remove_node(self.nodes[pool].pop(), allow_graceful=False)

    def metrics_of_the_head(self) -> str:
        """What Prometheus would scrape from the head node."""
        head = self._cluster.head_node
        with urllib.request.urlopen(f"http://{head.node_ip_address}:{head.metrics_export_port}/metrics") as answer:
            return str(answer.read().decode())

    def stop(self) -> None:
        self._cluster.shutdown()


@contextmanager
def local_cluster(placement: PlacementPlan) -> Iterator[LocalCluster]:
    cluster = LocalCluster(placement)
    try:
        yield cluster
    finally:
        cluster.stop()
