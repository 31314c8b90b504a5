"""The operator as a process: one of two acts, a killed one loses nothing, one at rest writes nothing."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import job_document
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, condition_of, install_crd, phase
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

WRITES = {"create", "update", "patch", "delete"}


@pytest.fixture
def lease(namespace: Namespace) -> str:
    return f"lease-{namespace.name}"


@pytest.fixture
def start(local_cluster: LocalCluster, lease: str, tmp_path: Path) -> Iterator[Any]:
    """Starts operators, and ends those that a test leaves running."""
    install_crd(local_cluster)
    started: list[Operator] = []

    def begin(*arguments: str) -> Operator:
        log = tmp_path / f"operator-{len(started)}.log"
        started.append(Operator(local_cluster.kubeconfig, log, f"--lease-name={lease}", *arguments))
        return started[-1]

    yield begin
    for operator in started:
        if operator.running:
            operator.kill()


def holder(cluster: LocalCluster, lease: str) -> str:
    found = cluster.api.get("leases.coordination.k8s.io", lease, namespace="default")
    return str(found["spec"]["holderIdentity"])


def provisioning(job: Manifest) -> bool:
    return phase(job) == "Provisioning" and bool(job["status"].get("rayCluster"))


def test_a_second_replica_takes_over_and_makes_nothing_twice(
    start: Any, local_cluster: LocalCluster, namespace: Namespace, lease: str
) -> None:
    first = start("--lease-seconds=4")
    namespace.apply(job_document(name="one"))
    namespace.wait(JOBS, "one", provisioning, what="the first replica to act")
    leader = holder(local_cluster, lease)
    second = start("--lease-seconds=4")
    namespace.apply(job_document(name="two"))
    namespace.wait(JOBS, "two", provisioning, what="the leader to go on")
    assert holder(local_cluster, lease) == leader

    first.kill()
    namespace.apply(job_document(name="three"))
    namespace.wait(JOBS, "three", provisioning, within=90, what="the second replica to take over")
    assert holder(local_cluster, lease) != leader
    assert second.running
    assert {c["metadata"]["name"] for c in namespace.find(RAY_CLUSTERS)} == {"one-1", "two-1", "three-1"}
    for name in ("one", "two", "three"):
        status = namespace.get(JOBS, name)["status"]
        assert (status["attempt"], status["failures"]) == (1, 0)


def test_told_to_stop_it_stops_and_gives_the_lease_back(
    start: Any, local_cluster: LocalCluster, namespace: Namespace, lease: str
) -> None:
    first = start()
    namespace.apply(job_document())
    namespace.wait(JOBS, "job", provisioning, what="the operator to act")
    assert first.stop() == 0
    assert holder(local_cluster, lease) == ""

    second = start()
    namespace.apply(job_document(name="other"))
    namespace.wait(JOBS, "other", provisioning, what="the operator to act")
    server = local_cluster.component("kube-apiserver")
    server.pause()
    try:
        assert second.stop() == 0, "an API server that does not answer keeps nobody from ending"
    finally:
        server.resume()


def test_at_rest_it_writes_nothing(start: Any, local_cluster: LocalCluster, namespace: Namespace) -> None:
    """A refused, a suspended and a waiting job, looked at again and again."""
    operator = start("--resync-seconds=1", "--leader-election=false")
    namespace.apply(job_document({"placement": {"total": {"gpusPerNode": 7}}}, name="refused"))
    namespace.apply(job_document({"suspend": True}, name="suspended"))
    namespace.apply(job_document(name="waiting"))
    namespace.wait(JOBS, "refused", lambda j: condition_of(j, "Accepted").get("status") == "False", what="the refusal")
    namespace.wait(JOBS, "suspended", lambda j: phase(j) == "Suspended", what="the suspension")
    namespace.wait(JOBS, "waiting", lambda j: j.get("status", {}).get("reason") == "Unschedulable", what="the wait")

    def ours() -> list[Manifest]:
        return [
            e for e in local_cluster.audit() if e.get("userAgent") == "split-ppo" and namespace.name in e["requestURI"]
        ]

    before = ours()
    deadline = time.monotonic() + 60
    while _looks(ours()) < _looks(before) + 20:
        assert time.monotonic() < deadline, "the operator does not look at its jobs"
        time.sleep(0.5)  # the audit log is a file; it tells nobody that it grew
    written = [(e["verb"], e["requestURI"]) for e in ours()[len(before) :] if e["verb"] in WRITES]
    assert written == []
    assert operator.running


def _looks(entries: list[Manifest]) -> int:
    return sum(e["verb"] == "get" and "splitppojobs" in e["requestURI"] for e in entries)


def test_kubectl_waits_for_conditions(start: Any, local_cluster: LocalCluster, namespace: Namespace) -> None:
    start("--leader-election=false")
    namespace.apply(job_document())
    local_cluster.kubectl("wait", "--for=condition=Accepted", "sppo/job", "-n", namespace.name, "--timeout=30s")
    told = local_cluster.kubectl("describe", "sppo", "job", "-n", namespace.name)
    assert "AttemptBegins" in told
    assert "Attempt 1 begins on a new RayCluster." in told


def test_a_quota_is_said_in_the_api_servers_words(start: Any, namespace: Namespace) -> None:
    start("--leader-election=false")
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    namespace.apply(quota)
    namespace.wait("resourcequotas", "small", lambda q: "hard" in q.get("status", {}), what="the quota to be in force")
    namespace.apply(job_document())
    job = namespace.wait(
        JOBS,
        "job",
        lambda j: j.get("status", {}).get("reason") == "PodsRefused",
        within=90,
        what="the quota to be told",
    )
    assert "exceeded quota: small" in job["status"]["message"]


def test_what_kuberay_refuses_is_said_in_its_words(start: Any, namespace: Namespace) -> None:
    """A podTemplate can break a RayCluster in ways that only KubeRay knows."""
    start("--leader-election=false")
    namespace.apply(
        job_document(
            {
                "image": "mine",
                "rayVersion": "2.58.0",
                "placement": {"head": {"podTemplate": {"spec": {"containers": None}}}},
            }
        )
    )
    job = namespace.wait(
        JOBS,
        "job",
        lambda j: j.get("status", {}).get("reason") in ("RefusedByKubeRay", "ActionFailed"),
        within=60,
        what="the refusal",
    )
    assert "containers" in job["status"]["message"] or "KubeRay" in job["status"]["message"]


def test_a_finished_job_is_deleted_when_its_time_is_over(start: Any, namespace: Namespace) -> None:
    start("--leader-election=false")
    policy = {"startupDeadlineSeconds": 1, "backoffLimit": 0, "ttlSecondsAfterFinished": 2}
    namespace.apply(job_document({"runPolicy": policy}))
    namespace.wait_gone(JOBS, "job", within=60)
    namespace.wait_all("pods", lambda pods: not pods, within=60, what="its pods to go")
