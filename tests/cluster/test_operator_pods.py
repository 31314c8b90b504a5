"""The operator with real Ray pods on real nodes: from apply to the end, and through what goes wrong on the way."""

from collections.abc import Iterator

import pytest

from cluster.operators import (
    JOBS,
    ONE_POOL,
    RAY_CLUSTERS,
    UNTIL_TOLD,
    Operator,
    condition_of,
    install_crd,
    phase,
    running_operator,
    small_job,
)
from testbed.api import Manifest
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster


@pytest.fixture(scope="module")
def operator(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    install_crd(real_cluster)
    with running_operator(real_cluster, tmp_path_factory.mktemp("operator") / "log") as started:
        yield started


def wait_phase(namespace: Namespace, wanted: str, *, name: str = "small", within: float = 240) -> Manifest:
    def there(job: Manifest) -> bool:
        if phase(job) in ("Failed", "Succeeded") and phase(job) != wanted:
            pytest.fail(f"the job is {phase(job)}: {job['status'].get('message')}")
        return phase(job) == wanted

    return namespace.wait(JOBS, name, there, within=within, what=f"{name} to be {wanted}")


def tell(namespace: Namespace, name: str = "small") -> None:
    [head] = namespace.find("pods", labels=f"ray.io/node-type=head,splitppo.io/job={name}")
    namespace.exec(head["metadata"]["name"], "touch", "/tmp/go")


def pods_of(namespace: Namespace, name: str) -> list[str]:
    found = namespace.find("pods", labels=f"splitppo.io/job={name}")
    return sorted(p["metadata"]["labels"]["ray.io/group"] for p in found)


def wait_for_nothing(namespace: Namespace, name: str) -> None:
    """Everything that was made for the job is gone, by the operator or by KubeRay."""
    for resource in (
        RAY_CLUSTERS,
        "pods",
        "serviceaccounts",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
    ):
        labels = f"splitppo.io/job={name}"
        namespace.wait_all(resource, lambda found: not found, labels=labels, within=120, what=f"{name}'s to go")
    for resource in ("services", "secrets"):
        gone = lambda found: not [o for o in found if o["metadata"]["name"].startswith(f"{name}-")]  # noqa: E731
        namespace.wait_all(resource, gone, within=60, what=f"KubeRay's of {name} to go")


def test_from_apply_through_a_suspension_to_succeeded(operator: Operator, real_namespace: Namespace) -> None:
    """Under Pod Security `restricted`, which is enforced on the namespace."""
    real_namespace.cluster.kubectl("label", "ns", real_namespace.name, "pod-security.kubernetes.io/enforce=restricted")
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD))
    job = wait_phase(real_namespace, "Running")
    assert job["status"]["poolSummary"] == "actor 1/1, critic 1/1"
    assert condition_of(job, "PoolsReady")["status"] == "True"
    assert job["status"]["attempts"][0]["submissionId"] == f"{job['metadata']['uid']}-1"
    assert "finalizers" not in job["metadata"]
    assert "annotations" not in job["metadata"]

    api = real_namespace.api
    api.patch(JOBS, "small", {"spec": {"suspend": True}}, namespace=real_namespace.name)
    real_namespace.wait(
        JOBS, "small", lambda j: j["status"].get("reason") == "Suspended", within=120, what="suspension"
    )
    assert pods_of(real_namespace, "small") == []
    assert real_namespace.find(RAY_CLUSTERS) == []

    api.patch(JOBS, "small", {"spec": {"suspend": False}}, namespace=real_namespace.name)
    job = wait_phase(real_namespace, "Running")
    assert [a["outcome"] for a in job["status"]["attempts"]] == ["Suspended", "Running"]
    assert job["status"]["failures"] == 0
    tell(real_namespace)
    job = wait_phase(real_namespace, "Succeeded")
    assert condition_of(job, "Succeeded")["status"] == "True"
    assert job["status"]["attempts"][1]["outcome"] == "Succeeded"
    real_namespace.wait_all(
        "pods", lambda pods: not pods, labels="splitppo.io/job=small", within=120, what="pods to go"
    )
    assert real_namespace.find(RAY_CLUSTERS) == []
    reasons = [e["reason"] for e in real_namespace.find("events") if e["involvedObject"]["kind"] == "SplitPPOJob"]
    assert {"AttemptBegins", "Submitted", "Training", "Suspended", "TrainingSucceeded"} <= set(reasons)


@pytest.mark.slow
def test_every_way_to_go_on_and_to_end(operator: Operator, real_namespace: Namespace) -> None:
    """Jobs beside each other: `restart` Job, Cluster and Never, `cleanup` Cluster, Workers and None, a deadline."""
    fails_once = 'if attempt == 1:\n    sys.exit("split-ppo: the first try never works.")'
    policies: dict[str, tuple[str, dict[str, object]]] = {
        "again": (fails_once, {"restart": "Job"}),
        "anew": (fails_once, {"restart": "Cluster", "cleanup": "Workers"}),
        "never": (fails_once, {"restart": "Never", "cleanup": "None"}),
        "late": (UNTIL_TOLD, {"activeDeadlineSeconds": 45}),
    }
    for name, (program, policy) in policies.items():
        real_namespace.apply(*small_job(real_namespace, program, name=name, spec={**ONE_POOL, "runPolicy": policy}))

    again = wait_phase(real_namespace, "Succeeded", name="again")["status"]
    assert [(a["outcome"], a["cluster"]) for a in again["attempts"]] == [
        ("Failed", "again-1"),
        ("Succeeded", "again-1"),
    ]
    assert "the first try never works" in again["attempts"][0]["message"]

    never = wait_phase(real_namespace, "Failed", name="never")["status"]
    assert (never["reason"], never["failures"], never["attempt"]) == ("TrainingFailed", 1, 1)
    assert "restart is Never" in never["message"]
    assert pods_of(real_namespace, "never") == ["actor", "headgroup"]

    late = wait_phase(real_namespace, "Failed", name="late")["status"]
    assert late["reason"] == "ActiveDeadline"
    assert "activeDeadlineSeconds is 45" in late["message"]

    anew = wait_phase(real_namespace, "Succeeded", name="anew")["status"]
    assert [(a["outcome"], a["cluster"]) for a in anew["attempts"]] == [("Failed", "anew-1"), ("Succeeded", "anew-2")]
    gone = {"again": [], "late": [], "anew": ["headgroup"]}
    for name, left in gone.items():
        real_namespace.wait_all(
            "pods",
            lambda pods, left=left: sorted(p["metadata"]["labels"]["ray.io/group"] for p in pods) == left,
            labels=f"splitppo.io/job={name}",
            within=120,
            what=f"what {name} leaves",
        )
    assert sorted(c["metadata"]["name"] for c in real_namespace.find(RAY_CLUSTERS)) == ["anew-2", "never-1"]
    assert pods_of(real_namespace, "never") == ["actor", "headgroup"]
    for name in ("never", "anew"):
        real_namespace.delete(JOBS, name)
        wait_for_nothing(real_namespace, name)


def test_a_failed_try_a_lost_head_and_a_deletion(operator: Operator, real_namespace: Namespace) -> None:
    """The first try fails and the second is on the same RayCluster; its head is lost; the third is deleted while it runs."""
    fails_once = 'if attempt == 1:\n    sys.exit("split-ppo: the first try never works.")\n' + UNTIL_TOLD
    real_namespace.apply(*small_job(real_namespace, fails_once, spec=ONE_POOL))
    beside_it(real_namespace)
    job = real_namespace.wait(
        JOBS,
        "small",
        lambda j: phase(j) == "Running" and j["status"]["attempt"] == 2,
        within=240,
        what="the second try to run",
    )
    first, second = job["status"]["attempts"]
    assert (first["outcome"], first["cluster"], second["cluster"]) == ("Failed", "small-1", "small-1")
    assert "the first try never works" in first["message"]

    [head] = real_namespace.find("pods", labels="ray.io/node-type=head,splitppo.io/job=small")
    real_namespace.delete("pods", head["metadata"]["name"])
    job = real_namespace.wait(
        JOBS, "small", lambda j: j["status"]["attempts"][1]["outcome"] == "Failed", within=120, what="the loss"
    )
    assert job["status"]["attempts"][1]["reason"] in ("HeadRestarted", "PodLost")
    job = wait_phase(real_namespace, "Running")
    assert job["status"]["failures"] == 2
    real_namespace.delete(JOBS, "small")
    for name in ("small", "young", "no-image"):
        wait_for_nothing(real_namespace, name)


def beside_it(namespace: Namespace) -> None:
    """While the first starts: one is deleted in the middle of it, another never gets its image, says so, and is let go."""
    namespace.apply(*small_job(namespace, UNTIL_TOLD, name="young", spec=ONE_POOL))
    wrong = {**ONE_POOL, "image": "localhost/no-such-image:1", "imagePullPolicy": "Never"}
    namespace.apply(*small_job(namespace, "", name="no-image", spec=wrong))
    namespace.wait_all("pods", len, labels="splitppo.io/job=young", what="a pod of it")
    wait_phase(namespace, "Provisioning", name="young", within=60)
    namespace.delete(JOBS, "young")

    def said(found: Manifest) -> bool:
        status = found.get("status", {})
        return status.get("reason") == "ImagePull" and {p.get("reason") for p in status["pools"]} == {"ImagePull"}

    stuck = namespace.wait(JOBS, "no-image", said, within=60, what="the reason, for the job and each pool")
    assert "localhost/no-such-image:1" in stuck["status"]["message"]
    namespace.delete(JOBS, "no-image")


@pytest.mark.slow
def test_deleted_in_the_moment_it_starts(operator: Operator, real_namespace: Namespace) -> None:
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD, spec=ONE_POOL))
    wait_phase(real_namespace, "Starting")
    real_namespace.delete(JOBS, "small")
    wait_for_nothing(real_namespace, "small")


@pytest.mark.slow
def test_a_head_whose_gcs_died_in_place_is_noticed(operator: Operator, real_namespace: Namespace) -> None:
    """KubeRay says `ready` throughout and the pod stays the same; only its container was restarted, and Ray forgot the job."""
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD))
    wait_phase(real_namespace, "Running")
    [head] = real_namespace.find("pods", labels="ray.io/node-type=head")
    real_namespace.exec(head["metadata"]["name"], "sh", "-c", "kill -9 $(pgrep gcs_server)")
    job = real_namespace.wait(
        JOBS, "small", lambda j: len(j["status"].get("attempts", [])) == 2, within=180, what="a second attempt"
    )
    assert job["status"]["attempts"][0]["outcome"] == "Failed"
    assert job["status"]["attempts"][1]["cluster"] == "small-1"
    wait_phase(real_namespace, "Running")
    tell(real_namespace)
    wait_phase(real_namespace, "Succeeded")


@pytest.mark.slow
def test_a_lost_node_means_a_new_cluster(
    operator: Operator, real_namespace: Namespace, local_real_cluster: LocalCluster
) -> None:
    """Pods of a node that is cut off can't go away, so KubeRay would wait for them for ever."""
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD))
    wait_phase(real_namespace, "Running")
    [critic] = real_namespace.find("pods", labels="ray.io/group=critic")
    lost = critic["spec"]["nodeName"]
    local_real_cluster.nodes[lost].cut_off()
    try:
        job = real_namespace.wait(
            JOBS,
            "small",
            lambda j: phase(j) == "Running" and j["status"]["rayCluster"]["name"] != "small-1",
            within=420,
            what="the training to run again elsewhere",
        )
        assert job["status"]["failures"] >= 1
        pods = real_namespace.find("pods", labels=f"ray.io/cluster={job['status']['rayCluster']['name']}")
        assert lost not in {p["spec"]["nodeName"] for p in pods}
    finally:
        local_real_cluster.nodes[lost].restore()


@pytest.mark.slow
def test_out_of_memory_is_said(operator: Operator, real_namespace: Namespace) -> None:
    pools = {"actor": {"gpusPerNode": 1, "memory": "60Mi"}}
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD, spec={"placement": {"pools": pools}}))
    job = real_namespace.wait(
        JOBS, "small", lambda j: j.get("status", {}).get("reason") == "OutOfMemory", within=240, what="the reason"
    )
    assert "memory limit of 60Mi" in job["status"]["message"]


@pytest.mark.slow
def test_after_a_power_loss_it_runs_again(
    operator: Operator, real_namespace: Namespace, local_real_cluster: LocalCluster
) -> None:
    """The node is back before its GPUs are: its pods are started again, or turned away for good (UnexpectedAdmissionError)."""
    holds = (
        "@ray.remote(num_cpus=0, resources={'critic_pool': 0.001})\nclass Held:\n    def here(self): return True\n"
        "held = Held.remote()\n"
        'while not pathlib.Path("/tmp/go").exists():\n    ray.get(held.here.remote())\n    time.sleep(0.5)'
    )
    gpu = {"name": "ray", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}
    quick = {"terminationGracePeriodSeconds": 2}
    near, far = {"split-ppo.test/rack": "a"}, {"split-ppo.test/rack": "b"}
    critic = {"gpusPerNode": 1, "nodeSelector": far, "podTemplate": {"spec": {**quick, "containers": [gpu]}}}
    placement = {"head": {"nodeSelector": near}, "pools": {"actor": {"nodeSelector": near}, "critic": critic}}
    real_namespace.apply(*small_job(real_namespace, holds, spec={"placement": placement}))
    wait_phase(real_namespace, "Running")
    node = local_real_cluster.nodes["node-2"]
    node.kill()
    node.start(local_real_cluster.api)

    def running_again(job: Manifest) -> bool:
        assert phase(job) != "Failed", job["status"]
        return phase(job) == "Running" and len(job["status"]["attempts"]) > 1

    job = real_namespace.wait(JOBS, "small", running_again, within=240, what="it to run again")
    assert job["status"]["attempts"][0]["outcome"] == "Failed"
    tell(real_namespace)
    wait_phase(real_namespace, "Succeeded")
