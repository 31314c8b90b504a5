"""A Ray cluster of several nodes on this machine, as a plan wants it: one head and the nodes of each pool.

It lives in a process of its own (`cluster_process.py`): Ray's library holds one cluster per process and lifetime.
Workers of a cluster that trains are forked from a warm process, as `split-ppo run` does it: starting up is most of what
these tests take.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from split_ppo.placement.plan import PlacementPlan
from split_ppo.runplan import RunPlan
from split_ppo_trainer.driver import job_environment
from split_ppo_trainer.ray_start import RAY_ENVIRONMENT

HERE = Path(__file__).parent


class LocalCluster:
    """The cluster, from outside."""

    def __init__(self, placement: PlacementPlan, variables: dict[str, str], *, warm: bool) -> None:
        words = ["warm"] if warm else []
        self._process = subprocess.Popen(
            [sys.executable, HERE / "cluster_process.py", placement.model_dump_json(), *words],
            env={**os.environ, **RAY_ENVIRONMENT, **variables, "PYTHONPATH": str(HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._about = json.loads(self._answer())
        self.address: str = self._about["address"]

    def lose(self, pool: str) -> None:
        """Kill a node of the pool, processes and all, as a machine that loses power."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{pool}\n")
        self._process.stdin.flush()
        assert self._answer().strip() == f"lost {pool}"

    def metrics_of_the_head(self) -> str:
        """What Prometheus would scrape from the head node."""
        with urllib.request.urlopen(self._about["metrics"]) as answer:
            return str(answer.read().decode())

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the cluster's process ended; its stderr says why"
        return line


@contextmanager
def local_cluster(placement: PlacementPlan) -> Iterator[LocalCluster]:
    """Nodes alone: nothing is trained on them."""
    cluster = LocalCluster(placement, {}, warm=False)
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def training_cluster(plan: RunPlan) -> Iterator[LocalCluster]:
    """Nodes whose workers start warm. Only the first Ray job on them does."""
    cluster = LocalCluster(plan.placement, job_environment(plan, os.environ), warm=True)
    try:
        yield cluster
    finally:
        cluster.stop()
