"""Who can't do what: podTemplates, ServiceAccounts, the trainer's token; on a real API server, with the rights that are given."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import job_document
from cluster.command_line import User
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, condition_of, install_crd, once_allowed, running_operator
from split_ppo.api.generate import ROOT
from split_ppo.placement.checks import check_job
from split_ppo_operator.desired.names import trainer_name
from split_ppo_operator.desired.pods import head_template, worker_template
from testbed.api import Api, ApiError
from testbed.cluster import Cluster, Namespace
from unit.test_reach import CASES, with_template

CREATES_JOBS = {"apiGroups": ["splitppo.io"], "resources": ["splitppojobs"], "verbs": ["get", "list", "create"]}
GREEDY = {
    "placement": {
        "head": {"podTemplate": {"spec": {"serviceAccountName": "deployer", "hostNetwork": True}}},
        "total": {
            "gpusPerNode": 4,
            "podTemplate": {"spec": {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]}},
        },
    }
}


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """On a platform that allows one thing."""
    install_crd(cluster)
    flags = ("--leader-election=false", "--allow-in-pod-template=hostNamespaces")
    with running_operator(cluster, tmp_path_factory.mktemp("operator") / "log", *flags) as started:
        yield started


def test_a_podtemplate_gives_nobody_more_than_is_allowed(
    operator: Operator, namespace: Namespace, cluster: Cluster, tmp_path: Path
) -> None:
    """A user who may create jobs but not pods asks for the node's disk, its network and somebody else's account."""
    user = User(namespace, tmp_path, CREATES_JOBS)
    cluster.kubectl("create", "serviceaccount", "deployer", "-n", namespace.name)
    submitted = user("submit", "-", text=yaml.safe_dump(job_document(GREEDY)))
    assert "needs hostNetwork, hostPath, serviceAccount, which the operator's" in submitted.output
    job = namespace.wait(
        JOBS, "job", lambda j: j.get("status", {}).get("reason") == "PodTemplateNotAllowed", what="the refusal"
    )
    for words in ("hostNetwork: true", "serviceAccountName: deployer", "volume node of kind hostPath"):
        assert words in job["status"]["message"]
    assert condition_of(job, "Accepted")["status"] == "False"
    assert namespace.find(RAY_CLUSTERS) == []
    assert namespace.find("serviceaccounts", labels="splitppo.io/job=job") == []


def test_pod_security_agrees(cluster: Cluster, namespace: Namespace) -> None:
    """What the operator lets through passes `restricted`, what it refuses does not; of accounts that knows nothing."""
    cluster.kubectl("label", "ns", namespace.name, "pod-security.kubernetes.io/enforce=restricted")
    for account in ("deployer", trainer_name("job", "11111111-2222")):
        cluster.kubectl("create", "serviceaccount", account, "-n", namespace.name)
    differ = []
    path = namespace.api.resource("pods").path(namespace.name)
    for what, spec, names in CASES:
        for head in (True, False):
            job = with_template(spec, head=head)
            plan = check_job(job)
            template = (
                head_template(job, plan, attempt=1) if head else worker_template(job, plan, plan.pools[0], attempt=1)
            )
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "spec": template["spec"]}
            said = ""
            try:
                namespace.api.request("POST", path, pod, query={"dryRun": "All"})
            except ApiError as refused:
                said = str(refused)
            # An unmasked /proc can't be asked for at all without a user namespace: that is another refusal.
            refuses = "violates PodSecurity" in said or "procMount" in said
            if refuses != bool(names - {"serviceAccount"}) or (said and not refuses):
                differ.append(f"{what}: {said or 'accepted'}")
    assert differ == []


def test_what_the_platform_allows_goes_through(operator: Operator, namespace: Namespace) -> None:
    namespace.apply(job_document({"placement": {"head": {"podTemplate": {"spec": {"hostIPC": True}}}}}))
    [made] = namespace.wait_all(RAY_CLUSTERS, lambda found: len(found) == 1, what="the RayCluster")
    assert made["spec"]["headGroupSpec"]["template"]["spec"]["hostIPC"] is True


def test_an_account_that_is_there_is_not_taken_over(operator: Operator, namespace: Namespace, cluster: Cluster) -> None:
    """Whatever a job is called, its pods speak with the rights of an account that was made for it."""
    cluster.kubectl("create", "serviceaccount", "deploy-trainer", "-n", namespace.name)
    namespace.apply(job_document(name="deploy"))
    [made] = namespace.wait_all(RAY_CLUSTERS, lambda found: len(found) == 1, what="the RayCluster")
    assert made["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] != "deploy-trainer"
    there = namespace.get("serviceaccounts", "deploy-trainer")["metadata"]
    assert "ownerReferences" not in there
    assert "labels" not in there


def test_a_trainer_may_patch_its_own_jobs_status_and_nothing_else(
    operator: Operator, namespace: Namespace, tmp_path: Path
) -> None:
    for name in ("mine", "yours"):
        namespace.apply(job_document(name=name))
    namespace.wait_all(RAY_CLUSTERS, lambda found: len(found) == 2, what="the RayClusters")
    [account] = [s["metadata"]["name"] for s in namespace.find("serviceaccounts", labels="splitppo.io/job=mine")]
    trainer = Api(namespace.cluster.kubeconfig_for(account, namespace=namespace.name, path=tmp_path / "trainer"))
    where: dict[str, Any] = {"namespace": namespace.name}
    progress = {"status": {"training": {"step": 1}}}
    namespace.wait_all(
        "rolebindings.rbac.authorization.k8s.io", lambda found: len(found) == 2, what="the roles' bindings"
    )
    once_allowed(lambda: trainer.patch(JOBS, "mine", progress, namespace=namespace.name, subresource="status"))
    # The operator reads the names in a status back: they can't be paths to elsewhere.
    for field in ("cluster", "submissionId"):
        astray = {"status": {"attempts": [{"number": 1, "outcome": "Running", field: "../../default/secrets/x"}]}}
        with pytest.raises(ApiError, match="should match"):
            trainer.patch(JOBS, "mine", astray, subresource="status", **where)
    refused: list[tuple[str, Any]] = [
        ("the status of another job", lambda: trainer.patch(JOBS, "yours", progress, subresource="status", **where)),
        ("its own spec", lambda: trainer.patch(JOBS, "mine", {"spec": {"suspend": True}}, **where)),
        ("reading its job", lambda: trainer.get(JOBS, "mine", **where)),
        ("Ray's token", lambda: trainer.get("secrets", "mine-1", **where)),
        ("its RayCluster", lambda: trainer.patch(RAY_CLUSTERS, "mine-1", {"spec": {"suspend": True}}, **where)),
        ("pods", lambda: trainer.find("pods", **where)),
    ]
    for what, attempt in refused:
        with pytest.raises(ApiError) as answer:
            attempt()
        assert answer.value.status == 403, what


def test_the_manifests_in_the_pages_are_accepted(cluster: Cluster, namespace: Namespace) -> None:
    for page in ("security", "cli"):
        blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(), re.DOTALL)
        assert blocks
        for block in blocks:
            cluster.kubectl("apply", "--dry-run=server", "-n", namespace.name, "-f", "-", stdin=block)
