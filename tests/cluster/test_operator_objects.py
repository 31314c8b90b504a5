"""The operator on a real API server with the real KubeRay; pods exist and are scheduled, on nodes that are not there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import job_document
from cluster.operators import (
    JOBS,
    RAY_CLUSTERS,
    Operator,
    condition_of,
    install_crd,
    once_allowed,
    phase,
    running_operator,
)
from split_ppo.api.generate import ROOT
from split_ppo.jobfile import load_jobs
from testbed.addons import FAKE, FakeNodes
from testbed.api import Manifest
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
TOLERATED = {"key": FAKE, "operator": "Exists"}


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    install_crd(cluster)
    with running_operator(cluster, tmp_path_factory.mktemp("operator") / "log") as started:
        yield started


@pytest.fixture(scope="module")
def gpus(cluster: Cluster, operator: Operator) -> Iterator[None]:
    """A few fake nodes of the kind that the examples ask for."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("fake nodes are only made in a cluster of the test bed's own")
    cluster.add_fake_nodes(FakeNodes(4, gpus=8, prefix="gpu", labels={"gpu-model": "h100"}))
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "training"},
        "value": 1,
    }
    cluster.api.apply(priority)
    yield
    for number in range(4):
        cluster.api.delete("nodes", f"gpu-{number}")


def tolerating(document: Manifest) -> Manifest:
    placement = document["spec"]["placement"]
    for shape in (placement.get("total"), *placement.get("pools", {}).values(), placement.setdefault("head", {})):
        if shape is not None:
            shape.setdefault("tolerations", []).append(TOLERATED)
    return document


def ready(job: Manifest) -> bool:
    pools = job.get("status", {}).get("pools", [])
    return bool(pools) and all(p["ready"] == p["desired"] for p in pools)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_kuberay_accepts_every_example(gpus: None, namespace: Namespace, example: Path) -> None:
    [item, *_] = load_jobs(example.read_text(), str(example)).jobs
    document = item.job.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    for claim in ("checkpoints", "data"):
        namespace.claim(claim, f"/tmp/{claim}")
    namespace.apply(tolerating(document))
    name = item.job.metadata.name
    job = namespace.wait(JOBS, name, ready, within=120, what="every pool to be ready")
    assert phase(job) == "Starting"
    pods = [p for p in namespace.find("pods") if p["metadata"]["labels"].get("ray.io/node-type") == "worker"]
    layout: dict[str, set[str]] = {}
    for pod in pods:
        layout.setdefault(pod["metadata"]["labels"]["splitppo.io/pool"], set()).add(pod["spec"]["nodeName"])
    assert {p["name"]: p["desired"] for p in job["status"]["pools"]} == {k: len(v) for k, v in layout.items()}
    if item.job.spec.placement.layout == "WithinNodes":
        assert layout["actor"] == layout["critic"]
    if item.job.spec.placement.layout == "AcrossNodes":
        assert not layout["actor"] & layout["critic"]


def test_a_wrong_spec_makes_nothing_and_a_corrected_one_goes_on(operator: Operator, namespace: Namespace) -> None:
    namespace.apply(job_document({"placement": {"total": {"gpusPerNode": 7}}}))
    job = namespace.wait(JOBS, "job", lambda j: condition_of(j, "Accepted").get("status") == "False", what="a refusal")
    assert "What fits every pool: batchSize 1152" in condition_of(job, "Accepted")["message"]
    assert condition_of(job, "Stalled")["status"] == "True"
    assert namespace.find(RAY_CLUSTERS) == []
    change = {"spec": {"training": {"batchSize": 1152, "miniBatchSize": 288}}}
    namespace.api.patch(JOBS, "job", change, namespace=namespace.name)
    namespace.wait(JOBS, "job", lambda j: phase(j) == "Provisioning", what="the job to go on")
    assert [c["metadata"]["name"] for c in namespace.find(RAY_CLUSTERS)] == ["job-1"]


def test_too_few_gpus_says_how_many_are_free(gpus: None, namespace: Namespace) -> None:
    namespace.apply(tolerating(job_document({"placement": {"total": {"gpusPerNode": 32}}})))
    job = namespace.wait(
        JOBS, "job", lambda j: j.get("status", {}).get("reason") == "Unschedulable", within=60, what="why"
    )
    message = job["status"]["message"]
    assert "Insufficient nvidia.com/gpu" in message
    assert "at most 8 on one" in message


def test_a_raycluster_that_is_somebody_elses_is_left_alone(operator: Operator, namespace: Namespace) -> None:
    template = {"spec": {"containers": [{"name": "ray", "image": "none"}]}}
    theirs = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "job-1"},
        "spec": {"suspend": True, "headGroupSpec": {"rayStartParams": {}, "template": template}},
    }
    namespace.apply(theirs)
    namespace.apply(job_document())
    job = namespace.wait(JOBS, "job", lambda j: j.get("status", {}).get("reason") == "ActionFailed", what="a complaint")
    assert '"job-1" already exists' in job["status"]["message"]
    found = namespace.get(RAY_CLUSTERS, "job-1")
    assert "ownerReferences" not in found["metadata"]
    assert found["spec"]["suspend"]
    namespace.delete(RAY_CLUSTERS, "job-1")
    namespace.wait(JOBS, "job", lambda j: phase(j) == "Provisioning", within=60, what="the job to go on")


def test_an_account_that_is_there_is_put_right(operator: Operator, namespace: Namespace) -> None:
    """A process that died before it wrote anything down may have left it; somebody may have changed it since."""
    [job] = namespace.apply(job_document({"suspend": True}))
    name = f"job-{job['metadata']['uid'][:8]}-trainer"
    metadata = {"name": name, "labels": {"splitppo.io/job": "other", "mine": "yes"}}
    namespace.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    namespace.api.patch(JOBS, "job", {"spec": {"suspend": False}}, namespace=namespace.name)
    namespace.wait_all(RAY_CLUSTERS, lambda found: len(found) == 1, what="the RayCluster")
    found = namespace.wait(
        "serviceaccounts", name, lambda a: a["metadata"].get("ownerReferences"), what="the account to be the job's"
    )
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert found["metadata"]["labels"]["splitppo.io/job"] == "job"
    assert found["metadata"]["labels"]["mine"] == "yes"


def test_deleting_the_job_leaves_nothing(operator: Operator, namespace: Namespace) -> None:
    namespace.apply(job_document())
    namespace.wait_all(RAY_CLUSTERS, lambda found: len(found) == 1, what="the RayCluster")
    namespace.wait_all("pods", lambda found: len(found) == 3, within=60, what="its pods")
    namespace.api.delete(JOBS, "job", namespace=namespace.name)
    for resource in (RAY_CLUSTERS, "pods", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"):
        namespace.wait_all(resource, lambda found: not found, within=90, what=f"no {resource} to be left")
    assert [s["metadata"]["name"] for s in namespace.find("serviceaccounts")] == ["default"]


def test_trainer_and_operator_share_the_status(operator: Operator, namespace: Namespace, tmp_path: Path) -> None:
    """The trainer's ServiceAccount may patch this job's status and nothing else; neither takes the other's fields."""
    from testbed.api import Api, ApiError

    namespace.apply(job_document())
    namespace.wait_all(RAY_CLUSTERS, lambda found: len(found) == 1, what="the RayCluster")
    [account] = [s["metadata"]["name"] for s in namespace.find("serviceaccounts", labels="splitppo.io/job=job")]
    file = namespace.cluster.kubeconfig_for(account, namespace=namespace.name, path=tmp_path / "trainer")
    trainer = Api(file)
    path = f"/apis/splitppo.io/v1alpha1/namespaces/{namespace.name}/splitppojobs/job/status"
    progress: dict[str, Any] = {
        "apiVersion": "splitppo.io/v1alpha1",
        "kind": "SplitPPOJob",
        "metadata": {"name": "job"},
        "status": {"training": {"step": 3, "totalSteps": 9, "progress": "3/9", "reward": 0.5}},
    }
    query = {"fieldManager": "split-ppo-trainer"}
    applied = yaml.safe_dump(progress).encode()
    once_allowed(
        lambda: trainer.request("PATCH", path, applied, query=query, content_type="application/apply-patch+yaml")
    )
    namespace.api.patch(JOBS, "job", {"spec": {"suspend": True}}, namespace=namespace.name)
    job = namespace.wait(JOBS, "job", lambda j: j["status"].get("reason") == "Suspended", within=120, what="suspension")
    assert job["status"]["training"]["progress"] == "3/9"
    assert job["status"]["phase"] == "Suspended"
    for verb, resource in (("get", JOBS), ("patch", JOBS), ("get", "secrets"), ("list", "pods")):
        answer = namespace.cluster.kubectl(
            "auth",
            "can-i",
            verb,
            resource,
            "-n",
            namespace.name,
            f"--as=system:serviceaccount:{namespace.name}:{account}",
            check=False,
        )
        assert answer.strip() == "no", f"the trainer may {verb} {resource}"
    with pytest.raises(ApiError, match="forbidden"):
        trainer.find("pods", namespace=namespace.name)
