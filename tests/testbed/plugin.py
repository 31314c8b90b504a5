"""Fixtures for tests that need Kubernetes.

- `cluster`: API server, controllers, scheduler, KubeRay; pods are never run. No root needed. One for the whole session.
- `real_cluster`: the same with two real nodes of 4 GPUs each. Root on Linux. One for the whole session.
- `namespace`, `real_namespace`: a fresh namespace in either, removed after the test. When the test fails, what there
  was to see in it is kept in a folder whose path is printed with the failure.

`pytest --cluster-kubeconfig FILE` runs the same tests on a cluster that exists already; what only works on a cluster of the
test bed's own (`local_cluster`, `local_real_cluster`) is skipped there and says so.
"""

import os
import re
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import artefacts, cache, needs
from testbed.addons import FakeNodes
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster
from testbed.node import NodeSpec

NODES = (
    NodeSpec(gpus=4, labels={"split-ppo.test/rack": "a"}),
    NodeSpec(gpus=4, labels={"split-ppo.test/rack": "b"}),
)
FOLDERS = {"cluster", "chaos", "e2e"}  # whose tests all need Kubernetes
REAL = {"real_cluster", "real_namespace", "local_real_cluster"}
NAMESPACES = pytest.StashKey[list[Namespace]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("testbed", "a Kubernetes to test on")
    group.addoption("--cluster-kubeconfig", metavar="FILE", help="test on this cluster instead of starting one")
    default = os.environ.get("SPLIT_PPO_ARTEFACTS", str(cache.root() / "failures"))
    group.addoption(
        "--artefacts", metavar="FOLDER", default=default, help="where to keep what failed tests leave to see"
    )


def pytest_configure() -> None:
    """A shell that starts something in the background lets it ignore Ctrl-C, and all that is started by it too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks by folder and by what a test asks for."""
    for item in items:
        if item.path.parent.name in FOLDERS:
            item.add_marker(pytest.mark.cluster)
            if item.path.parent.name == "e2e" or REAL & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.nodes)


def _existing(config: pytest.Config) -> Cluster | None:
    given = config.getoption("--cluster-kubeconfig")
    if not given:
        return None
    file = Path(given).expanduser()
    if not file.is_file():
        raise pytest.UsageError(f"--cluster-kubeconfig: there is no file {file}.")
    return Cluster(file)


def _skip_without_kuberay(existing: Cluster) -> None:
    if not existing.api.has("rayclusters.ray.io"):
        pytest.skip("this cluster has no KubeRay, which everything here builds on")


def pytest_report_header(config: pytest.Config) -> str | None:
    existing = _existing(config)
    return f"cluster: {existing.api.server}, which exists already" if existing else None


def _skip_unless_possible(*, nodes: bool) -> None:
    if reason := needs.reason_against(nodes=nodes):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster whose pods need not run."""
    if existing := _existing(request.config):
        _skip_without_kuberay(existing)
        yield existing
        return
    _skip_unless_possible(nodes=False)
    with LocalCluster.start() as started:
        yield started


@pytest.fixture(scope="session")
def real_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that runs pods, on two nodes."""
    if existing := _existing(request.config):
        _skip_without_kuberay(existing)
        if len(existing.real_nodes()) < len(NODES):
            pytest.skip(f"this cluster has fewer than {len(NODES)} schedulable nodes that run pods")
        yield existing
        return
    _skip_unless_possible(nodes=True)
    with LocalCluster.start(nodes=NODES) as started:
        yield started


def _local(found: Cluster) -> LocalCluster:
    if not isinstance(found, LocalCluster):
        pytest.skip("only a cluster the test bed made itself can be taken apart")
    return found


@pytest.fixture
def local_cluster(cluster: Cluster) -> LocalCluster:
    """`cluster`, for tests that stop its components."""
    return _local(cluster)


@pytest.fixture
def local_real_cluster(real_cluster: Cluster) -> LocalCluster:
    """`real_cluster`, for tests that cut off its nodes."""
    return _local(real_cluster)


@pytest.fixture(scope="session")
def fake_nodes(cluster: Cluster) -> Cluster:
    """`cluster` with 100 fake nodes of 8 GPUs; pods that tolerate `kwok.x-k8s.io/node` are Running there at once."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("fake nodes are made by KWOK, which the test bed starts only beside clusters of its own")
    cluster.add_fake_nodes(FakeNodes(100))
    return cluster


def _namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:30].strip("-")
    made = cluster.make_namespace(f"{slug}-{secrets.token_hex(2)}")
    request.node.stash.setdefault(NAMESPACES, []).append(made)
    yield made
    made.remove()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    yield from _namespace(cluster, request)


@pytest.fixture
def real_namespace(real_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    yield from _namespace(real_cluster, request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Before the fixtures are torn down, keep what a failed test would be asked about."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed and call.when in ("setup", "call"):
        for kept in item.stash.get(NAMESPACES, []):
            name = re.sub(r"[^\w.-]+", "_", item.nodeid.rpartition("/")[2])
            folder = Path(item.config.getoption("--artefacts")) / name / kept.name
            artefacts.collect(kept, folder)
            report.sections.append(("Kept of its namespace", f"{folder}\n(objects, events, pod and component logs)"))
    return report  # type: ignore[return-value]
