"""The chart on a real API server, from the first install to the last trace; its pods stay Pending, which none of this minds."""

import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import job_document
from cluster.charts import CHART, CRD, Release, columns, older_chart
from cluster.operators import JOBS, install_crd, wait_established
from testbed import needs
from testbed.api import ApiError, condition
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

TENANCY = CHART.parents[1] / "docs" / "multi-tenancy.md"
VALUES = {"metrics": {"dashboard": {"enabled": True}}, "networkPolicy": {"enabled": True}}


@pytest.fixture(scope="module")
def bare() -> Iterator[LocalCluster]:
    """A cluster that has never seen a SplitPPOJob, nor KubeRay."""
    if reason := needs.reason_against(nodes=False):
        pytest.skip(reason)
    with LocalCluster.start(kuberay=False) as started:
        yield started


@pytest.fixture
def system(bare: LocalCluster) -> Iterator[Namespace]:
    """Where a release goes: Pod Security refuses there what is not `restricted`."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    made = bare.make_namespace(f"system-{secrets.token_hex(2)}", labels=labels)
    yield made
    made.remove()


@pytest.fixture
def release(bare: LocalCluster, system: Namespace) -> Release:
    return Release(bare, system.name)


def can(cluster: Cluster, verb: str, what: str, *options: str, user: str, namespace: str) -> bool:
    asked = ["auth", "can-i", verb, what, *options, f"--as={user}", "--namespace", namespace]
    said = cluster.kubectl(*asked, check=False)
    return said.strip() == "yes"


def test_install_upgrade_uninstall_and_again(release: Release, system: Namespace, tmp_path: Path) -> None:
    cluster = release.cluster
    said = release.install(older_chart(tmp_path), VALUES)
    assert "KubeRay is not here yet" in said
    assert f"helm test split-ppo --namespace {system.name}" in said
    assert "Checkpoint" not in columns(cluster)
    wait_established(cluster)
    made = system.wait_all("pods", lambda pods: len(pods) == 2, within=60, what="two pods that Pod Security admits")
    assert {p["metadata"]["labels"]["app.kubernetes.io/version"] for p in made} == {"0.0.9"}
    system.apply(job_document(name="kept"))
    job = system.get(JOBS, "kept")

    release.upgrade(CHART, VALUES)
    assert "Checkpoint" in columns(cluster), "the CRD must follow the chart"
    assert system.get(JOBS, "kept")["metadata"]["resourceVersion"] == job["metadata"]["resourceVersion"]
    history = release.helm("history", release.name)
    assert "superseded" in history
    assert "deployed" in history

    release.helm("uninstall", release.name, "--wait")
    system.wait_all("pods", lambda pods: not pods, within=60, what="the operator's pods to go")
    assert release.left() == []
    assert system.get(JOBS, "kept")["metadata"]["uid"] == job["metadata"]["uid"], "jobs outlive the operator"

    release.install(CHART, VALUES)
    assert condition(cluster.api.get("customresourcedefinitions.apiextensions.k8s.io", CRD), "Established") == "True"
    release.helm("uninstall", release.name, "--wait")
    assert release.left() == []


def test_a_crd_that_kubectl_installed_can_be_taken_over(release: Release, tmp_path: Path) -> None:
    """And a release of another name refuses to take what is not its own, unless it is told to."""
    cluster = release.cluster
    cluster.kubectl("delete", "crd", CRD, "--ignore-not-found")
    cluster.kubectl("apply", "-f", str(CHART.parents[1] / "crds"))
    with pytest.raises(RuntimeError, match="invalid ownership metadata"):
        release.install(CHART, {})
    release.install(CHART, {}, "--take-ownership")
    release.helm("uninstall", release.name)


def test_people_see_and_change_jobs_with_the_roles_they_have(release: Release, system: Namespace) -> None:
    cluster = release.cluster
    release.install(CHART, {}, "--take-ownership")
    for who in ("view", "edit"):
        cluster.kubectl("create", "rolebinding", who, f"--clusterrole={who}", f"--user={who}er", "-n", system.name)
    cluster.api.wait(
        "clusterroles.rbac.authorization.k8s.io",
        "edit",
        lambda role: any("splitppo.io" in rule["apiGroups"] and "create" in rule["verbs"] for rule in role["rules"]),
        within=60,
    )
    where = {"namespace": system.name}
    assert can(cluster, "list", "splitppojobs", user="viewer", **where)
    assert not can(cluster, "create", "splitppojobs", user="viewer", **where)
    assert can(cluster, "create", "splitppojobs", user="editer", **where)
    status = ("patch", "splitppojobs", "--subresource=status")
    assert can(cluster, *status, user=release.user, **where)
    assert not can(cluster, *status, user="editer", **where), "only operator and trainer may"
    release.helm("uninstall", release.name)


def test_in_some_namespaces_only(release: Release, system: Namespace) -> None:
    cluster = release.cluster
    other = cluster.make_namespace(f"team-{secrets.token_hex(2)}")
    release.install(CHART, {"namespaces": [other.name], "rbac": {"readNodes": False}}, "--take-ownership")
    for namespace, allowed in ((other.name, True), (system.name, False)):
        assert can(cluster, "delete", "splitppojobs", user=release.user, namespace=namespace) is allowed
        assert can(cluster, "get", "secrets", user=release.user, namespace=namespace) is allowed
    assert not can(cluster, "list", "nodes", user=release.user, namespace=other.name)
    release.helm("uninstall", release.name)
    assert release.left() == []
    other.remove()


def test_the_policy_in_the_docs_makes_teams_use_a_queue(bare: LocalCluster, system: Namespace) -> None:
    install_crd(bare)
    [policy] = re.findall(r"```yaml\n(apiVersion: admissionregistration.*?)```", TENANCY.read_text(), re.DOTALL)
    bare.kubectl("apply", "-f", "-", stdin=policy)
    refused, deadline = "", time.monotonic() + 60
    while not refused and time.monotonic() < deadline:  # a policy is in force a moment after it is there
        try:
            system.apply(job_document())
            system.delete(JOBS, "job")
            time.sleep(0.2)
        except ApiError as error:
            refused = str(error)
    assert "Jobs on this cluster need spec.scheduling.queueName." in refused
    system.apply(job_document({"scheduling": {"queueName": "team-a"}}, name="queued"))
    bare.kubectl("delete", "-f", "-", stdin=policy)
