"""What is around the operator goes away for a while, or works against it: it says so, and goes on where it was."""

import time
from pathlib import Path

import pytest

from builders import job_document
from chaos.conftest import Replicas
from chaos.proxy import Call, Fault, FaultProxy
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, install_crd, phase
from testbed import addons
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster


def provisioning(job: Manifest) -> bool:
    return phase(job) == "Provisioning" and job["status"].get("reason") == "Unschedulable"


def clusters(namespace: Namespace) -> list[str]:
    return sorted(c["metadata"]["name"] for c in namespace.find(RAY_CLUSTERS))


@pytest.mark.slow
@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
def test_goes_on_after_a_restart_of(
    component: str, local_cluster: LocalCluster, namespace: Namespace, tmp_path: Path
) -> None:
    """Straight to the API server, with the Lease: a leader that could not renew ends, and is started again."""
    install_crd(local_cluster)
    arguments = ("--lease-seconds=4", f"--lease-name={namespace.name}")
    operator = Operator(local_cluster.kubeconfig, tmp_path / "log", *arguments)
    try:
        namespace.apply(job_document(name="before"))
        namespace.wait(JOBS, "before", provisioning, what="the operator to act")
        local_cluster.component(component).kill()
        time.sleep(8)  # longer than the Lease: the outage itself is what is tested
        local_cluster.component(component).start()
        local_cluster.wait_ready()
        if not operator.running:
            operator = Operator(local_cluster.kubeconfig, tmp_path / "log", *arguments)
        namespace.apply(job_document(name="after"))
        namespace.wait(JOBS, "after", provisioning, within=120, what="the operator to act again")
        assert clusters(namespace) == ["after-1", "before-1"]
        assert namespace.get(JOBS, "before")["status"]["failures"] == 0
        assert "Traceback" not in (tmp_path / "log").read_text()
    finally:
        operator.kill()


def test_deletions_that_nobody_saw(replicas: Replicas, proxy: FaultProxy, namespace: Namespace) -> None:
    """While no watch is open a job, and another job's RayCluster, are deleted; both are noticed when watches are back."""
    replicas.end()
    replicas.start("--resync-seconds=3600")
    for name in ("kept", "deleted"):
        namespace.apply(job_document(name=name))
        namespace.wait(JOBS, name, provisioning, what="the operator to act")

    def blind(call: Call) -> Fault:
        unseen = call.watch or call.path.endswith(("/splitppojobs", "/rayclusters", "/pods"))
        return Fault(status=503) if unseen else Fault()

    proxy.rule = blind
    proxy.cut_watches()
    namespace.delete(JOBS, "deleted")
    namespace.delete(RAY_CLUSTERS, "kept-1")
    namespace.wait_all(RAY_CLUSTERS, lambda found: not found, what="both RayClusters to go")
    proxy.rule = lambda call: Fault()
    job = namespace.wait(JOBS, "kept", lambda j: j["status"]["attempt"] == 2, within=90, what="a new attempt")
    assert job["status"]["attempts"][0]["reason"] == "ClusterDeleted"
    namespace.wait_all(RAY_CLUSTERS, len, what="its RayCluster")
    assert clusters(namespace) == ["kept-2"]
    assert "Traceback" not in replicas.said()


def test_ray_clusters_that_come_to_be_seen_later(replicas: Replicas, proxy: FaultProxy, namespace: Namespace) -> None:
    """KubeRay installed after us: the watches that run are left alone, one is added."""

    def hidden(call: Call) -> Fault:
        return Fault(status=404) if call.path.startswith("/apis/ray.io/v1") else Fault()

    def watches(kind: str) -> int:
        return sum(call.watch and call.path.endswith(f"/{kind}") for call in proxy.calls)

    def wait_watched(kind: str) -> None:
        deadline = time.monotonic() + 60
        while not watches(kind):
            assert time.monotonic() < deadline, f"{kind} are not watched"
            time.sleep(0.2)  # requests are counted, not announced

    replicas.end()
    proxy.rule, proxy.calls[:] = hidden, []
    replicas.start("--resync-seconds=3600")
    namespace.apply(job_document(name="early"))
    namespace.wait(
        JOBS, "early", lambda job: job.get("status", {}).get("reason") == "KubeRayMissing", what="the job to be seen"
    )
    wait_watched("pods")
    assert watches("rayclusters") == 0
    proxy.rule = lambda call: Fault()
    namespace.wait(JOBS, "early", provisioning, within=90, what="the operator to act")
    wait_watched("rayclusters")
    namespace.delete(RAY_CLUSTERS, "early-1")
    namespace.wait(JOBS, "early", lambda job: job["status"]["attempt"] == 2, what="its deletion to be seen")
    assert (watches("splitppojobs"), watches("pods")) == (1, 1)
    assert "Traceback" not in replicas.said()


def test_an_account_that_is_late_delays_the_pods_alone(
    replicas: Replicas, proxy: FaultProxy, namespace: Namespace
) -> None:
    """The RayCluster does not wait for it; KubeRay, refused its pods, tries again until it is there."""
    proxy.rule = lambda call: Fault(delay=3) if call.writes and "/serviceaccounts" in call.path else Fault()
    namespace.apply(job_document())
    namespace.wait_all(RAY_CLUSTERS, len, what="the RayCluster")
    assert namespace.find("serviceaccounts", labels="splitppo.io/job=job") == []
    namespace.wait_all("pods", lambda pods: len(pods) == 3, within=60, what="the pods")
    job = namespace.wait(JOBS, "job", provisioning, what="the attempt to be written down")
    assert (job["status"]["attempt"], job["status"]["failures"], clusters(namespace)) == (1, 0, ["job-1"])


def test_without_an_account_no_gpu_is_held(replicas: Replicas, proxy: FaultProxy, namespace: Namespace) -> None:
    proxy.rule = lambda call: Fault(status=403) if call.writes and "/serviceaccounts" in call.path else Fault()
    namespace.apply(job_document())
    namespace.wait(JOBS, "job", lambda j: j.get("status", {}).get("reason") == "Forbidden", what="a complaint")
    assert namespace.find("pods") == []
    proxy.rule = lambda call: Fault()
    namespace.api.patch(JOBS, "job", {"metadata": {"labels": {"touched": "yes"}}}, namespace=namespace.name)
    namespace.wait(JOBS, "job", provisioning, what="the job to go on")
    namespace.wait_all("pods", lambda pods: len(pods) == 3, within=60, what="the pods")
    assert clusters(namespace) == ["job-1"]


@pytest.mark.slow
def test_an_api_server_that_always_says_later_is_not_run_down(
    replicas: Replicas, proxy: FaultProxy, namespace: Namespace
) -> None:
    """Every write of a job is refused, each time differently: few requests, and all is well when it is over."""

    def refuse(call: Call) -> Fault:
        if not call.writes:
            return Fault()
        status = (409, 429, 500, 503)[call.number % 4]
        return Fault(status=status, retry_after=5 if status == 429 else None)

    proxy.rule = refuse
    namespace.apply(job_document())
    deadline = time.monotonic() + 60
    while sum(c.writes for c in proxy.calls) < 4:
        assert time.monotonic() < deadline, "the operator does not try"
        time.sleep(0.2)  # requests are counted, not announced
    before = len(proxy.calls)
    time.sleep(10)  # how many come in a given time is what is tested
    assert len(proxy.calls) - before < 60, "a handful of looks in ten seconds"
    proxy.rule = lambda call: Fault()
    namespace.wait(JOBS, "job", provisioning, within=120, what="the job to go on")
    assert clusters(namespace) == ["job-1"]


@pytest.mark.slow
def test_two_that_both_act_make_one_of_everything(
    replicas: Replicas, proxy: FaultProxy, namespace: Namespace, tmp_path: Path
) -> None:
    """Without leader election, which is wrong, and still harmless."""
    (tmp_path / "second").mkdir()
    second = Replicas(proxy.kubeconfig(tmp_path / "second"), tmp_path / "second")
    try:
        names = [f"job-{number}" for number in range(10)]
        for name in names:
            namespace.apply(job_document(name=name))
        for name in names:
            namespace.wait(JOBS, name, provisioning, within=90, what="the operators to act")
        assert clusters(namespace) == sorted(f"{name}-1" for name in names)
        for name in names:
            status = namespace.get(JOBS, name)["status"]
            assert (status["attempt"], status["failures"], len(status["attempts"])) == (1, 0, 1)
        assert second.current.running
        assert replicas.current.running
    finally:
        second.end()


@pytest.mark.slow
def test_without_kuberay_it_waits_and_says_so(
    replicas: Replicas, local_cluster: LocalCluster, namespace: Namespace
) -> None:
    kuberay = local_cluster.component("kuberay-operator")
    kuberay.stop()
    try:
        namespace.apply(job_document())
        job = namespace.wait(
            JOBS, "job", lambda j: j.get("status", {}).get("reason") == "WaitingForPods", what="the wait"
        )
        assert "Waiting for KubeRay to make the pods of the head" in job["status"]["message"]
    finally:
        kuberay.start()
    namespace.wait(JOBS, "job", provisioning, within=120, what="the job to go on")
    assert namespace.get(JOBS, "job")["status"]["failures"] == 0


@pytest.mark.slow
def test_a_rival_is_reported_and_not_fought(replicas: Replicas, proxy: FaultProxy, namespace: Namespace) -> None:
    namespace.apply(job_document())
    namespace.wait(JOBS, "job", provisioning, what="the operator to act")
    before = len(proxy.written)
    found = namespace.get(RAY_CLUSTERS, "job-1")
    groups = found["spec"]["workerGroupSpecs"]
    groups[0] |= {"replicas": 0, "minReplicas": 0}
    namespace.api.patch(RAY_CLUSTERS, "job-1", {"spec": {"workerGroupSpecs": groups}}, namespace=namespace.name)
    job = namespace.wait(
        JOBS, "job", lambda j: j["status"].get("reason") == "ClusterChanged", what="the change to be told"
    )
    assert "its group actor has 0 replicas instead of 1" in job["status"]["message"]
    ours = [path for _, path, _ in proxy.written[before:] if "/rayclusters" in path]
    assert ours == [], "the RayCluster is not ours to put back"

    namespace.delete(RAY_CLUSTERS, "job-1")
    job = namespace.wait(JOBS, "job", lambda j: j["status"]["attempt"] == 2, within=60, what="a new attempt")
    assert job["status"]["attempts"][0]["reason"] == "ClusterDeleted"
    namespace.wait(JOBS, "job", lambda j: j["status"].get("reason") == "Unschedulable", within=60, what="new pods")
    assert clusters(namespace) == ["job-2"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 500])
def test_watches_that_are_refused_for_long(
    status: int, replicas: Replicas, proxy: FaultProxy, namespace: Namespace
) -> None:
    """Longer than kopf tries by itself. Jobs go on by looking at them now and then; when watches are back, so are events."""
    replicas.end()
    replicas.start("--resync-seconds=3")
    proxy.rule = lambda call: Fault(status=status) if call.watch else Fault()
    namespace.apply(job_document(name="unwatched"))
    namespace.wait(JOBS, "unwatched", provisioning, within=60, what="the operator to act without watches")
    time.sleep(75)  # longer than kopf tries
    assert replicas.current.running, replicas.said()[-2000:]
    proxy.rule = lambda call: Fault()
    namespace.apply(job_document(name="watched"))
    namespace.wait(JOBS, "watched", provisioning, within=150, what="the operator to act")
    assert replicas.current.running
    assert proxy.requests_within(60) < 600


@pytest.mark.slow
def test_kuberay_installed_after_the_operator(tmp_path: Path) -> None:
    """kopf learns at its start what the API server offers; the operator starts a second one when RayClusters come."""
    with LocalCluster.start(kuberay=False) as cluster:
        operator = Operator(cluster.kubeconfig, tmp_path / "log", "--resync-seconds=3600")
        try:
            install_crd(cluster)
            namespace = cluster.make_namespace("early")
            namespace.apply(job_document())
            namespace.wait(JOBS, "job", lambda j: j.get("status", {}).get("reason") == "KubeRayMissing", within=60)
            addons.start_kuberay(cluster.control, cluster.api)
            namespace.wait(JOBS, "job", provisioning, within=90, what="the job to go on")
            namespace.delete(RAY_CLUSTERS, "job-1")
            namespace.wait(
                JOBS, "job", lambda j: j["status"]["attempt"] == 2, within=60, what="RayClusters to be watched"
            )
            assert operator.running
        finally:
            operator.kill()
