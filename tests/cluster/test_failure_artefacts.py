"""When a test fails, what there was to see is kept in one folder and its path is printed."""

import subprocess
import sys
from pathlib import Path

from testbed import artefacts
from testbed.cluster import Cluster
from testbed.local import LocalCluster

TESTS = Path(__file__).parents[1]
FAILING = """
def test_fails(namespace):
    namespace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "evidence"}, "data": {"seen": "yes"}})
    namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "private"}, "stringData": {"p": "hush-hush"}})
    group = {"rayStartParams": {}, "template": namespace.ray_template()}
    spec = {"headGroupSpec": group, "workerGroupSpecs": [{**group, "groupName": "a", "rayStartParams": {"labels": "x=y"}}]}
    namespace.apply({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "bad"}, "spec": spec})
    namespace.wait_all("events", lambda all: all, within=60)
    namespace.wait("configmaps", "never-there", lambda _: True, within=1)
"""


def test_a_failed_test_leaves_its_evidence(cluster: Cluster, tmp_path: Path) -> None:
    """On the cluster that is up, through `--cluster-kubeconfig`: the way tests run on anybody's cluster."""
    file = tmp_path / "test_it.py"
    file.write_text(FAILING)
    kept = tmp_path / "kept"
    options = [
        "--cluster-kubeconfig",
        str(cluster.kubeconfig),
        "--artefacts",
        str(kept),
        "-p",
        "testbed.plugin",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", str(file), "--rootdir", str(tmp_path), "-c", "/dev/null", *options]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Waited 1 s for never-there to be as wanted of configmaps" in done.stdout
    [folder] = (kept / "test_it.py_test_fails").iterdir()
    assert str(folder) in done.stdout
    assert "seen: 'yes'" in (folder / "objects" / "configmaps.yaml").read_text()
    assert "InvalidRayClusterSpec" in (folder / "events.txt").read_text()
    assert not any("hush-hush" in path.read_text() for path in folder.rglob("*") if path.is_file())
    assert not (folder / "not-collected.txt").exists()


def test_the_logs_of_our_own_components_are_kept_too(local_cluster: LocalCluster, tmp_path: Path) -> None:
    namespace = local_cluster.make_namespace("evidence-of-components")
    try:
        artefacts.collect(namespace, tmp_path / "kept")
    finally:
        namespace.remove()
    logs = {file.stem for file in (tmp_path / "kept" / "components" / "control").iterdir()}
    assert {"etcd", "kube-apiserver", "kube-scheduler", "kuberay-operator"} <= logs
