"""A node that is cut off or loses power is noticed by Kubernetes, and takes part again when it is back."""

from cluster.test_nodes import ASK, SERVER, pod, run
from testbed.api import condition, ready
from testbed.cluster import Namespace
from testbed.local import LocalCluster

SLEEP = "import time; time.sleep(3600)"


def wait_not_ready(cluster: LocalCluster, node: str) -> None:
    cluster.api.wait("nodes", node, lambda it: condition(it, "Ready") != "True", within=180, what="to be not Ready")


def test_a_node_cut_off_is_not_ready_and_its_pods_live_on_until_it_is_back(
    local_real_cluster: LocalCluster, real_namespace: Namespace
) -> None:
    node = local_real_cluster.nodes["node-2"]
    near = pod(real_namespace, "near", script=SLEEP, node="node-1")
    [before, _] = run(real_namespace, pod(real_namespace, "far", script=SERVER, node=node.name), near)
    url = f"http://{before['status']['podIP']}:8000/name"
    node.cut_off()
    try:
        wait_not_ready(local_real_cluster, node.name)
        lost = real_namespace.wait("pods", "far", lambda it: condition(it, "Ready") == "False", within=60)
        assert lost["status"]["phase"] == "Running", "nobody can know what became of it"
        alive = node.ctr("containers", "list", "--quiet").split()
        assert alive, "what runs on a node that is cut off goes on running"
    finally:
        node.restore()
        node.wait_ready(local_real_cluster.api)
    after = real_namespace.wait("pods", "far", ready, within=120)
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert (
        after["status"]["containerStatuses"][0]["containerID"]
        == before["status"]["containerStatuses"][0]["containerID"]
    )
    assert real_namespace.exec("near", "python3", "-c", ASK, url) == "far"


def test_a_node_that_lost_power_comes_back_and_restarts_its_pods(
    local_real_cluster: LocalCluster, real_namespace: Namespace
) -> None:
    node = local_real_cluster.nodes["node-2"]
    with_gpu = pod(real_namespace, "with-gpu", script=SLEEP, node=node.name, gpus=1)
    [before, _] = run(real_namespace, pod(real_namespace, "pinned", script=SLEEP, node=node.name), with_gpu)
    node.kill()
    try:
        wait_not_ready(local_real_cluster, node.name)
    finally:
        node.start(local_real_cluster.api)
    after = real_namespace.wait(
        "pods",
        "pinned",
        lambda it: ready(it) and it["status"]["containerStatuses"][0]["restartCount"] > 0,
        within=180,
        what="to run again",
    )
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    # What a rebooted machine does with pods that had devices: the kubelet looks at them before the device plugin is back.
    real_namespace.wait("pods", "with-gpu", lambda it: ready(it) or it["status"]["phase"] == "Failed", within=60)
    run(real_namespace, pod(real_namespace, "fresh", script=SLEEP, node=node.name, gpus=3))


def test_a_kubelet_that_is_stopped_alone_leaves_its_containers_running(
    local_real_cluster: LocalCluster, real_namespace: Namespace
) -> None:
    node = local_real_cluster.nodes["node-1"]
    [before] = run(real_namespace, pod(real_namespace, "steady", script=SLEEP, node=node.name))
    container = before["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    kubelet = node.load("kubelet")
    kubelet.stop()
    assert kubelet.pid is None
    assert container in node.ctr("tasks", "list", "--quiet").split()
    kubelet.start()
    node.wait_ready(local_real_cluster.api)
    run(real_namespace, pod(real_namespace, "next", script=SLEEP, node=node.name))
    after = real_namespace.get("pods", "steady")["status"]["containerStatuses"]
    assert after == before["status"]["containerStatuses"]
