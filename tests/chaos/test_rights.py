"""Each right of the chart's roles taken away in turn: the job goes on without it, or somebody says what is missing."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import job_document
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, install_crd, phase
from split_ppo.api.generate import ROOT
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

pytestmark = pytest.mark.slow
ROLE = "chaos-operator"
SETTLED = ("Provisioning", "Recovering", "Starting")


def rendered_rules(cluster: LocalCluster) -> list[dict[str, Any]]:
    """What the chart gives the operator, in the namespace of jobs and for the Lease alike."""
    text = cluster.helm("template", "split-ppo", str(ROOT / "charts/split-ppo"))
    roles = [d for d in yaml.safe_load_all(text) if d and d["kind"] in ("ClusterRole", "Role")]
    own = [r for r in roles if not r["metadata"]["name"].endswith((":view", ":edit"))]
    rules = [rule for role in own for rule in role["rules"]]
    return [{k: v for k, v in rule.items() if k != "resourceNames"} for rule in rules]


def single(rules: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted(
        {(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}
    )


@pytest.fixture
def account(local_cluster: LocalCluster, namespace: Namespace, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with the rights of the ClusterRole `ROLE`, whatever they are at the moment."""
    install_crd(local_cluster)
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": namespace.name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}}
    namespace.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}})
    local_cluster.api.apply({**binding, "roleRef": reference, "subjects": [subject]})
    yield local_cluster.kubeconfig_for("operator", namespace=namespace.name, path=tmp_path / "operator.kubeconfig")
    local_cluster.api.delete("clusterrolebindings.rbac.authorization.k8s.io", ROLE)
    local_cluster.api.delete("clusterroles.rbac.authorization.k8s.io", ROLE)


def grant(cluster: LocalCluster, rights: list[tuple[str, str, str]]) -> None:
    rules = [{"apiGroups": [g], "resources": [r], "verbs": [v]} for g, r, v in rights]
    metadata = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ROLE}}
    cluster.api.apply({**metadata, "rules": rules})


def test_each_right_taken_away(
    local_cluster: LocalCluster, namespace: Namespace, account: Path, tmp_path: Path
) -> None:
    rights = single(rendered_rules(local_cluster))
    silent, busy, stuck = [], [], []
    for number, taken in enumerate(rights):
        grant(local_cluster, [r for r in rights if r != taken])
        name, log = f"job-{number}", tmp_path / f"{number}.log"
        lease = (f"--lease-namespace={namespace.name}", f"--lease-name=lease-{number}", "--lease-seconds=3")
        flags = (*lease, f"--namespaces={namespace.name}")
        policy = {"ttlSecondsAfterFinished": 0, "startupDeadlineSeconds": 0, "backoffLimit": 0}
        ends = taken[1:] == ("splitppojobs", "delete")
        namespace.apply(job_document({"runPolicy": policy} if ends else {}, name=name))
        operator = Operator(account, log, *flags)
        try:
            said = wait_for_word(namespace, name, operator, log)
            if said is None:
                silent.append(taken)
            before = requests(local_cluster, namespace)
            time.sleep(5)  # how many come in a given time is what is tested
            if requests(local_cluster, namespace) - before > 60:
                busy.append(taken)
            grant(local_cluster, rights)
            if not operator.running:
                operator = Operator(account, log, *flags)
            # Somebody who mends rights need not wait for the next look: a touched job is looked at.
            namespace.api.patch(JOBS, name, {"metadata": {"labels": {"touched": "yes"}}}, namespace=namespace.name)
            if not ends and not wait_for_cluster(namespace, name):
                stuck.append(taken)
        finally:
            operator.kill()
            namespace.delete(JOBS, name)
        print(f"{'/'.join(taken)}: {said}")
    assert (silent, busy, stuck) == ([], [], [])


def wait_for_word(namespace: Namespace, name: str, operator: Operator, log: Path) -> str | None:
    """How it went: on its way all the same, or who said what is missing."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        found = namespace.find(JOBS, fields=f"metadata.name={name}")
        status: dict[str, Any] = found[0].get("status", {}) if found else {}
        text = log.read_text()
        if "forbidden" in status.get("message", "").lower():
            return f"the job says: {status['message'][:200]}"
        if found and phase(found[0]) in SETTLED and status.get("reason") == "Unschedulable":
            said = [line for line in text.splitlines() if "forbidden" in line.lower()]
            return f"goes on; the log says: {said[-1][:200]}" if said else "goes on without it"
        if "forbidden" in text.lower() and (not operator.running or time.monotonic() > deadline - 30):
            line = next(line for line in text.splitlines() if "forbidden" in line.lower())
            return f"the log says: {line[:200]}"
        time.sleep(0.2)  # two places to look at
    return None


def requests(cluster: LocalCluster, namespace: Namespace) -> int:
    return sum(1 for _ in cluster.audit(user=f"system:serviceaccount:{namespace.name}:operator"))


def wait_for_cluster(namespace: Namespace, name: str) -> bool:
    try:
        namespace.wait(RAY_CLUSTERS, f"{name}-1", lambda _: True, within=60)
        namespace.wait(JOBS, name, lambda j: on_its_way(j), within=60)
    except AssertionError:
        return False
    return True


def on_its_way(job: Manifest) -> bool:
    return phase(job) in SETTLED and job["status"].get("reason") == "Unschedulable"
