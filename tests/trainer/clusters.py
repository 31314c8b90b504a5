"""A Ray cluster of several nodes on this machine, as a plan wants it: one head and the nodes of each pool.

Workers are forked from a warm process, as `split-ppo run` does it, when the plan says what their environment is: a
start-up is most of what these tests take.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from split_ppo.placement.plan import PlacementPlan
from split_ppo.runplan import RunPlan
from split_ppo_trainer import warm, warm_worker
from split_ppo_trainer.driver import job_environment
from split_ppo_trainer.supervisor import RAY_ENVIRONMENT

OBJECT_STORE = 128 << 20


class LocalCluster:
    """Ray's own multi-node test cluster, with a node for each entry of each pool."""

    def __init__(self, placement: PlacementPlan, node_options: Mapping[str, Any]) -> None:
        from ray.cluster_utils import Cluster

        common = {"object_store_memory": OBJECT_STORE, "include_dashboard": False, **node_options}
        self._cluster = Cluster()
        self._cluster.add_node(wait=False, num_cpus=4, num_gpus=0, **common)
        self.nodes: dict[str, list[Any]] = {pool.name: [] for pool in placement.pools}
        for pool in placement.pools:
            for gpus in pool.gpus:
                node = self._cluster.add_node(
                    wait=False, num_cpus=3 * gpus + 1, num_gpus=gpus, resources={pool.resource: gpus}, **common
                )
                self.nodes[pool.name].append(node)
        self._cluster.wait_for_nodes()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

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
    """Nodes alone: nothing is trained on them."""
    with environment(RAY_ENVIRONMENT):
        yield from _started(placement, {})


@contextmanager
def training_cluster(plan: RunPlan) -> Iterator[LocalCluster]:
    """Nodes whose workers start warm. Only the first Ray job on them does."""
    from ray._private import workers

    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    variables = RAY_ENVIRONMENT | job_environment(plan, os.environ)
    variables[warm_worker.SOCKET] = str(folder / "socket")
    variables[warm_worker.FALLBACK] = str(Path(workers.__file__).with_name("setup_worker.py"))
    variables[warm_worker.JOB] = warm.FIRST_JOB
    variables["PYTHONPATH"] = str(Path(__file__).parent)
    with environment(variables):
        oven = subprocess.Popen(
            [sys.executable, "-m", warm.__name__, str(folder / "socket")],
            env={**os.environ, "RAY_JOB_ID": warm.FIRST_JOB, "RAY_RAYLET_PID": str(os.getpid())},
        )
        try:
            yield from _started(plan.placement, {"setup_worker_path": warm_worker.__file__})
        finally:
            oven.kill()
            oven.wait()
            shutil.rmtree(folder)


def _started(placement: PlacementPlan, node_options: Mapping[str, Any]) -> Iterator[LocalCluster]:
    cluster = LocalCluster(placement, node_options)
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
