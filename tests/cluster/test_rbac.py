"""Two rights that the audit log can't show, and the operator with the rights of one namespace."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import job_document
from chart.rendering import render
from cluster.charts import Release
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, condition_of, install_crd
from cluster.rights import Right, owned_account, refused
from testbed.api import Api, ApiError
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

RBAC = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


def apply_rights(cluster: Cluster, namespace: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The chart's ServiceAccount and roles, without its pods."""
    objects = render(values, namespace=namespace)
    mine = [o for o in objects if o["kind"] in RBAC and "helm.sh/hook" not in o["metadata"].get("annotations", {})]
    cluster.api.apply(*mine)
    return mine


def remove_rights(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(objects))


@pytest.fixture
def account(cluster: Cluster, namespace: Namespace, tmp_path: Path) -> Iterator[Api]:
    """The API server as the operator's ServiceAccount sees it."""
    install_crd(cluster)
    made = apply_rights(cluster, namespace.name, {})
    yield Api(cluster.kubeconfig_for("split-ppo", namespace=namespace.name, path=tmp_path / "operator"))
    remove_rights(cluster, made)


def test_finalizers_are_asked_for_by_admission(account: Api, local_cluster: LocalCluster, namespace: Namespace) -> None:
    """The right to update them is used by no request, and yet nothing could be made without it."""
    [job] = namespace.apply(job_document({"suspend": True}))
    account.create(owned_account(job), namespace=namespace.name)
    namespace.delete("serviceaccounts", "owned")
    name = f"{namespace.name}:split-ppo"
    role = local_cluster.api.get("clusterroles.rbac.authorization.k8s.io", name)
    kept = [rule for rule in role["rules"] if "splitppojobs/finalizers" not in rule["resources"]]
    assert len(kept) == len(role["rules"]) - 1
    local_cluster.api.patch("clusterroles.rbac.authorization.k8s.io", name, {"rules": kept})

    def forbidden() -> str:
        for _ in range(100):  # the authoriser learns of the change by a watch
            try:
                account.create(owned_account(job), namespace=namespace.name)
            except ApiError as error:
                return str(error)
            namespace.delete("serviceaccounts", "owned")
            time.sleep(0.1)
        return "never"

    assert "cannot set blockOwnerDeletion" in forbidden()


def test_nobody_gets_more_out_of_it_than_it_has(account: Api, namespace: Namespace) -> None:
    """It makes Roles, but none that grants what it may not do itself."""
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "more"}, "rules": [rule]}
    with pytest.raises(ApiError, match="attempting to grant RBAC permissions not currently held"):
        account.create(role, namespace=namespace.name)
    with pytest.raises(ApiError, match="forbidden"):
        account.find("secrets", namespace=namespace.name)


def test_with_the_rights_of_one_namespace(
    fake_nodes: Cluster, local_cluster: LocalCluster, namespace: Namespace, tmp_path: Path
) -> None:
    """Only nodes and other people's pods are asked for in vain, and done without; jobs elsewhere are not looked at."""
    cluster = local_cluster
    install_crd(cluster)
    home = cluster.make_namespace(f"home-{secrets.token_hex(2)}")
    made = apply_rights(cluster, home.name, {"namespaces": [namespace.name], "rbac": {"readNodes": False}})
    file = cluster.kubeconfig_for("split-ppo", namespace=home.name, path=tmp_path / "operator")
    flags = [f"--namespaces={namespace.name}", f"--lease-namespace={home.name}", "--lease-name=split-ppo"]
    operator = Operator(file, tmp_path / "log", *flags)
    fake = {"tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]}
    greedy = {"placement": {"total": {"gpusPerNode": 32, **fake}, "head": fake}}
    try:
        home.apply(job_document(name="elsewhere"))
        namespace.apply(job_document(greedy, name="greedy"))
        stuck = namespace.wait(
            JOBS, "greedy", lambda j: condition_of(j, "PoolsReady").get("reason") == "Unschedulable", within=60
        )
        assert "Insufficient nvidia.com/gpu" in stuck["status"]["message"]
        assert "are free on" not in stuck["status"]["message"]
        namespace.api.patch(JOBS, "greedy", {"spec": {"suspend": True}}, namespace=namespace.name)
        namespace.wait(JOBS, "greedy", lambda j: j["status"].get("reason") == "Suspended", within=60)
        assert namespace.find(RAY_CLUSTERS) == []
        assert "status" not in home.get(JOBS, "elsewhere")
        asked_in_vain = refused(cluster.audit(Release(cluster, home.name).user))
        assert asked_in_vain, "nothing was refused: this would prove nothing"
        assert asked_in_vain <= {Right("", "nodes", "get"), Right("", "nodes", "list"), Right("", "pods", "list")}
        assert operator.running
    finally:
        operator.stop()
        remove_rights(cluster, made)
        home.remove()
