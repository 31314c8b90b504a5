"""Everything here needs Kubernetes. What is random follows from a seed, printed with a failure: the same one unless
SPLIT_PPO_CHAOS_SEED says otherwise, as `make chaos` does.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.proxy import FaultProxy
from cluster.operators import Operator, install_crd
from testbed.local import LocalCluster

SEED = "SPLIT_PPO_CHAOS_SEED"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    chosen = int(os.environ.get(SEED, "1"))
    print(f"\nthe same again: {SEED}={chosen} pytest '{request.node.nodeid}'")
    return chosen


@pytest.fixture
def proxy(local_cluster: LocalCluster) -> Iterator[FaultProxy]:
    install_crd(local_cluster)
    with FaultProxy(local_cluster.kubeconfig) as started:
        yield started


class Replicas:
    """Operators behind the proxy, restarted as a Deployment would."""

    def __init__(self, kubeconfig: Path, folder: Path, *arguments: str) -> None:
        self._kubeconfig, self._folder, self._arguments = kubeconfig, folder, arguments
        self.log = folder / "operator.log"
        self.current = self.start()

    def start(self, *arguments: str) -> Operator:
        options = ("--leader-election=false", *self._arguments, *arguments)
        self.current = Operator(self._kubeconfig, self.log, *options)
        return self.current

    def said(self) -> str:
        return self.log.read_text()

    def end(self) -> None:
        if self.current.running:
            self.current.kill()


@pytest.fixture
def replicas(proxy: FaultProxy, tmp_path: Path) -> Iterator[Replicas]:
    started = Replicas(proxy.kubeconfig(tmp_path), tmp_path)
    yield started
    started.end()
