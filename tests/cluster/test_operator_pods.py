"""The operator with real Ray pods on real nodes: from apply to the end, and through what goes wrong on the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.operators import (
    JOBS,
    RAY_CLUSTERS,
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

UNTIL_TOLD = 'while not pathlib.Path("/tmp/go").exists(): time.sleep(0.2)'


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


def tell(namespace: Namespace) -> None:
    [head] = namespace.find("pods", labels="ray.io/node-type=head")
    namespace.exec(head["metadata"]["name"], "touch", "/tmp/go")


def test_from_apply_to_succeeded(operator: Operator, real_namespace: Namespace) -> None:
    """Under Pod Security `restricted`, which is enforced on the namespace."""
    real_namespace.cluster.kubectl("label", "ns", real_namespace.name, "pod-security.kubernetes.io/enforce=restricted")
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD))
    job = wait_phase(real_namespace, "Running")
    assert job["status"]["poolSummary"] == "actor 1/1, critic 1/1"
    assert condition_of(job, "PoolsReady")["status"] == "True"
    assert job["status"]["attempts"][0]["submissionId"] == f"{job['metadata']['uid']}-1"
    assert "finalizers" not in job["metadata"]
    assert "annotations" not in job["metadata"]

    tell(real_namespace)
    job = wait_phase(real_namespace, "Succeeded")
    assert condition_of(job, "Succeeded")["status"] == "True"
    assert job["status"]["attempts"][0]["outcome"] == "Succeeded"
    real_namespace.wait_all(
        "pods", lambda pods: not pods, labels="splitppo.io/job=small", within=120, what="pods to go"
    )
    assert real_namespace.find(RAY_CLUSTERS) == []
    reasons = [e["reason"] for e in real_namespace.find("events") if e["involvedObject"]["kind"] == "SplitPPOJob"]
    assert {"AttemptBegins", "Submitted", "Training", "TrainingSucceeded"} <= set(reasons)


def test_suspend_resume_and_a_restarted_operator(operator: Operator, real_namespace: Namespace, tmp_path: Path) -> None:
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD))
    wait_phase(real_namespace, "Running")
    api = real_namespace.api
    api.patch(JOBS, "small", {"spec": {"suspend": True}}, namespace=real_namespace.name)
    real_namespace.wait(
        JOBS, "small", lambda j: j["status"].get("reason") == "Suspended", within=120, what="suspension"
    )
    assert real_namespace.find("pods", labels="splitppo.io/job=small") == []
    assert real_namespace.find(RAY_CLUSTERS) == []

    api.patch(JOBS, "small", {"spec": {"suspend": False}}, namespace=real_namespace.name)
    job = wait_phase(real_namespace, "Running")
    assert [a["outcome"] for a in job["status"]["attempts"]] == ["Suspended", "Running"]
    assert job["status"]["failures"] == 0
    tell(real_namespace)
    wait_phase(real_namespace, "Succeeded")


def test_a_failed_training_is_tried_again_on_the_same_cluster(operator: Operator, real_namespace: Namespace) -> None:
    program = (
        'once = pathlib.Path("/tmp/once")\nif not once.exists():\n'
        '    once.touch()\n    sys.exit("split-ppo: the first try never works.")'
    )
    real_namespace.apply(*small_job(real_namespace, program))
    job = wait_phase(real_namespace, "Succeeded")
    first, second = job["status"]["attempts"]
    assert (first["outcome"], second["outcome"]) == ("Failed", "Succeeded")
    assert first["cluster"] == second["cluster"] == "small-1"
    assert "the first try never works" in first["message"]


def test_a_worker_lost_and_a_head_lost(operator: Operator, real_namespace: Namespace) -> None:
    """The program below does not notice a lost worker; the operator does. A lost head is noticed at once."""
    real_namespace.apply(*small_job(real_namespace, UNTIL_TOLD))
    wait_phase(real_namespace, "Running")
    [head] = real_namespace.find("pods", labels="ray.io/node-type=head")
    real_namespace.api.delete("pods", head["metadata"]["name"], namespace=real_namespace.name)
    job = real_namespace.wait(
        JOBS, "small", lambda j: len(j["status"].get("attempts", [])) == 2, within=120, what="a second attempt"
    )
    assert job["status"]["attempts"][0]["reason"] in ("HeadRestarted", "PodLost")
    job = wait_phase(real_namespace, "Running")
    tell(real_namespace)
    job = wait_phase(real_namespace, "Succeeded")
    assert job["status"]["failures"] == 1


def test_a_wrong_image_is_said_and_let_go(operator: Operator, real_namespace: Namespace) -> None:
    config, job = small_job(real_namespace, "", spec={"image": "localhost/no-such-image:1", "imagePullPolicy": "Never"})
    real_namespace.apply(config, job)

    def said(found: Manifest) -> bool:
        status = found.get("status", {})
        return status.get("reason") == "ImagePull" and {p.get("reason") for p in status["pools"]} == {"ImagePull"}

    stuck = real_namespace.wait(JOBS, "small", said, within=60, what="the reason, for the job and each pool")
    assert "localhost/no-such-image:1" in stuck["status"]["message"]
    real_namespace.api.delete(JOBS, "small", namespace=real_namespace.name)
    real_namespace.wait_all(
        "pods", lambda pods: not pods, labels="splitppo.io/job=small", within=120, what="pods to go"
    )


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
