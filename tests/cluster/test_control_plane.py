"""The control plane is a real one: RBAC decides, the audit log remembers, parts can be lost and come back."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from testbed import build
from testbed.api import Api, ApiError, condition
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

UID = 65534
NOBODY = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "env", "--ignore-environment")


def service_account(namespace: Namespace, *, name: str, verbs: list[str]) -> None:
    """A ServiceAccount that may do these verbs to ConfigMaps, and nothing else."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
    namespace.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {**rbac, "kind": "Role", "rules": rules},
        {**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
    )


def test_a_service_account_may_do_what_its_role_says_and_no_more(namespace: Namespace, tmp_path: Path) -> None:
    service_account(namespace, name="reader", verbs=["get", "list"])
    file = namespace.cluster.kubeconfig_for("reader", namespace=namespace.name, path=tmp_path / "reader")
    reader = Api(file)
    names = {item["metadata"]["name"] for item in reader.find("configmaps", namespace=namespace.name)}
    assert names == {"kube-root-ca.crt"}
    with pytest.raises(ApiError, match="forbidden") as refused:
        reader.delete("configmaps", "kube-root-ca.crt", namespace=namespace.name)
    assert refused.value.status == 403


def test_the_audit_log_names_who_did_what(local_cluster: LocalCluster, namespace: Namespace, tmp_path: Path) -> None:
    service_account(namespace, name="auditee", verbs=["list"])
    file = local_cluster.kubeconfig_for("auditee", namespace=namespace.name, path=tmp_path / "auditee")
    Api(file).find("configmaps", namespace=namespace.name)
    user = f"system:serviceaccount:{namespace.name}:auditee"
    asked = [
        (entry["verb"], entry["objectRef"]["resource"]) for entry in local_cluster.audit(user) if "objectRef" in entry
    ]
    assert asked == [("list", "configmaps")]
    components = {entry["user"]["username"] for entry in local_cluster.audit()}
    assert {"system:kube-scheduler", "system:kube-controller-manager"} <= components
    assert "system:serviceaccount:ray-system:kuberay-operator" in components


def test_nobody_gets_in_without_a_name(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r'User "system:anonymous" cannot list resource "secrets"'):
        cluster.kubectl("get", "--raw", "/api/v1/secrets", "--as=system:anonymous")


def test_kuberay_watches(namespace: Namespace) -> None:
    """An invalid RayCluster gets KubeRay's own complaint: its operator runs, and may do what its role says."""
    group = {"rayStartParams": {}, "template": namespace.ray_template()}
    worker = {
        **group,
        "groupName": "actor",
        "replicas": 1,
        "resources": {"CPU": "1"},
        "rayStartParams": {"num-cpus": "1"},
    }
    spec = {"rayVersion": "2.58.0", "headGroupSpec": group, "workerGroupSpecs": [worker]}
    namespace.apply({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "wrong"}, "spec": spec})
    events = namespace.wait_all(
        "events", lambda all: any(e["reason"] == "InvalidRayClusterSpec" for e in all), within=60
    )
    assert {event["involvedObject"]["name"] for event in events} == {"wrong"}


@pytest.mark.parametrize("component", ["etcd", "kube-apiserver"])
def test_what_is_killed_comes_back_with_its_data(
    local_cluster: LocalCluster, namespace: Namespace, component: str
) -> None:
    namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"key": "value"}})
    process = local_cluster.component(component)
    process.kill()
    assert process.pid is None
    process.start()
    local_cluster.wait_ready()
    kept = namespace.wait("configmaps", "kept", lambda _: True, within=120)
    assert kept["data"] == {"key": "value"}
    namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "written-after"}})


def test_kuberay_goes_on_after_a_restart(local_cluster: LocalCluster, namespace: Namespace) -> None:
    operator = local_cluster.component("kuberay-operator")
    operator.stop()
    group = {"rayStartParams": {}, "template": namespace.ray_template()}
    spec = {"rayVersion": "2.58.0", "headGroupSpec": group}
    namespace.apply({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "waiting"}, "spec": spec})
    assert namespace.find("pods") == []
    operator.start()
    [head] = namespace.wait_all("pods", lambda pods: len(pods) == 1, within=120, what="the head pod to be made")
    namespace.wait("pods", head["metadata"]["name"], lambda pod: condition(pod, "PodScheduled") == "False", within=60)


def test_control_planes_side_by_side_do_not_meet(cluster: Cluster) -> None:
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only the test bed starts control planes")
    with LocalCluster.start(kuberay=False) as other:
        assert other.api.server != cluster.api.server
        other.make_namespace("only-here")
        assert [ns for ns in cluster.api.find("namespaces") if ns["metadata"]["name"] == "only-here"] == []
        with pytest.raises(LookupError, match="kuberay-operator"):
            other.component("kuberay-operator")
    assert other.run.folder.exists() is False
    assert cluster.api.get("namespaces", "default")


def test_helm_installs(namespace: Namespace, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: probe\nversion: 0.1.0\n")
    (chart / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {said: {{ .Values.said }}}\n"
    )
    namespace.cluster.helm("install", "hello", str(chart), "--namespace", namespace.name, "--set", "said=so")
    assert namespace.get("configmaps", "hello")["data"] == {"said": "so"}


def python_of_everybody() -> str | None:
    """An interpreter like ours that a user other than root may run (root's own often hides in its home)."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        ask = [*NOBODY, candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        said = subprocess.run(ask, capture_output=True, text=True)
        if said.stdout.strip() == "{}.{}".format(*sys.version_info[:2]):
            return candidate
    return None


def test_a_control_plane_needs_no_root() -> None:
    """Started by a user who owns nothing here but a folder; asked for a node it says what is missing."""
    if os.geteuid() != 0:
        pytest.skip("this is not root: the other tests show it already")
    python = python_of_everybody()
    if python is None:
        pytest.skip("there is no Python here that another user may run")
    with tempfile.TemporaryDirectory() as home:
        for program in (build.KUBE, build.KUBERAY, build.KWOK):
            folder = build.built(program).folder
            shutil.copytree(folder, Path(home) / "testbed" / folder.name, symlinks=True)
        for path in [Path(home), *Path(home).rglob("*")]:
            os.chown(path, UID, UID, follow_symlinks=False)
        packages = ":".join(path for path in sys.path if path)
        environment = [
            f"HOME={home}",
            f"SPLIT_PPO_CACHE={home}",
            f"PYTHONPATH={packages}",
            f"PATH={os.environ['PATH']}",
        ]
        testbed = [*NOBODY, *environment, python, "-m", "testbed"]

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([*testbed, *arguments], capture_output=True, text=True, cwd=home)

        try:
            started = run("up", "--fake-nodes", "2")
            assert "Ready in" in started.stdout, started.stderr
            there = Cluster(Path(home) / "testbed" / "runs" / "dev" / "kubeconfig")
            assert len(there.api.find("nodes")) == 2
        finally:
            ended = run("down")
        assert "The cluster dev is gone." in ended.stdout, ended.stderr
        refused = run("up", "--nodes", "1")
        assert refused.returncode == 1
        assert "real nodes need root" in refused.stderr
