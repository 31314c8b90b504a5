"""Real nodes: pods run, find each other, are reached through Services and names, talk and obey; GPUs are counted."""

import json
from pathlib import Path

import pytest

from testbed.api import ApiError, Manifest, condition, ready
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

SERVER = """
import http.server, os
os.chdir('/tmp')
open('name', 'w').write(os.environ['HOSTNAME'])
http.server.test(http.server.SimpleHTTPRequestHandler, port=8000)
"""
# Asks again while it is refused: nobody says when kube-proxy has taken notice of a new Service.
ASK = """
import sys, time, urllib.error, urllib.request
deadline = time.monotonic() + 60
while True:
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode(), end='')
        break
    except urllib.error.URLError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.2)
"""


def pod(
    namespace: Namespace, name: str, *, script: str = SERVER, node: str | None = None, gpus: int = 0, **spec: object
) -> Manifest:
    """A pod that runs a line of Python."""
    container = {
        "name": "main",
        "image": namespace.cluster.ray().image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
    }
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    metadata = {"name": name, "labels": {"app": name}}
    all_of_it = {"terminationGracePeriodSeconds": 0, "containers": [container], **selector, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": all_of_it}


def run(namespace: Namespace, *pods: Manifest) -> list[Manifest]:
    """Apply pods and wait until all are Ready."""
    namespace.apply(*pods)
    return [namespace.wait("pods", it["metadata"]["name"], ready, within=180, what="Ready") for it in pods]


def service(name: str, **more: object) -> Manifest:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8000}], **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def test_pods_reach_each_other_by_address_service_and_name_on_one_node_and_across_two(
    real_namespace: Namespace,
) -> None:
    here, there = real_namespace.cluster.real_nodes()[:2]
    server, _, _ = run(
        real_namespace,
        pod(real_namespace, "server", node=here),
        pod(real_namespace, "near", node=here),
        pod(real_namespace, "far", node=there),
    )
    [made] = real_namespace.apply(service("web", selector={"app": "server"}))
    real_namespace.wait_all(
        "endpointslices.discovery.k8s.io", lambda all: any(slice["endpoints"] for slice in all), within=60
    )
    ways = {
        "address": f"http://{server['status']['podIP']}:8000/name",
        "service": f"http://{made['spec']['clusterIP']}/name",
        "name": f"http://web.{real_namespace.name}.svc.cluster.local/name",
        "short name": "http://web/name",
    }
    for client in ("near", "far", "server"):  # the last one reaches itself through its own Service
        answers = {way: real_namespace.exec(client, "python3", "-c", ASK, url) for way, url in ways.items()}
        assert answers == dict.fromkeys(ways, "server"), f"asked from {client}"


def test_a_pod_talks_to_the_api_server_as_its_service_account(real_namespace: Namespace) -> None:
    ask = (
        "import ssl, urllib.request as u; d = '/var/run/secrets/kubernetes.io/serviceaccount/';"
        "h = {'Authorization': 'Bearer ' + open(d + 'token').read()};"
        "r = u.Request('https://kubernetes.default.svc/version', headers=h);"
        "print(u.urlopen(r, context=ssl.create_default_context(cafile=d + 'ca.crt')).read().decode())"
    )
    run(real_namespace, pod(real_namespace, "asker"))
    assert json.loads(real_namespace.exec("asker", "python3", "-c", ask))["major"] == "1"


def test_logs_and_exec(real_namespace: Namespace) -> None:
    script = "import sys, time; print('to stdout', flush=True); print('to stderr', file=sys.stderr, flush=True); time.sleep(3600)"
    run(real_namespace, pod(real_namespace, "talker", script=script))
    real_namespace.exec("talker", "sh", "-c", "exit 0")
    assert sorted(real_namespace.logs("talker").splitlines()) == ["to stderr", "to stdout"]
    with pytest.raises(RuntimeError, match="exit code 7"):
        real_namespace.exec("talker", "sh", "-c", "exit 7")


def gpus_of(node: Manifest) -> int:
    return int(node["status"]["allocatable"].get("nvidia.com/gpu", 0))


def test_gpus_are_given_out_one_by_one_and_run_out(real_namespace: Namespace) -> None:
    """Each container is told which devices are its own, no device is given twice, and what does not fit waits."""
    api = real_namespace.api
    node = real_namespace.cluster.real_nodes()[0]
    if isinstance(real_namespace.cluster, LocalCluster):  # a node that was lost a moment ago counts its GPUs anew
        api.wait("nodes", node, lambda it: gpus_of(it) >= 2, within=120, what="to have its GPUs")
    there = gpus_of(api.get("nodes", node))
    if there < 2:
        pytest.skip(f"{node} has {there} GPUs, this test takes two pods' worth")
    names = ["one", "two"]
    run(real_namespace, *(pod(real_namespace, name, node=node, gpus=there // 2) for name in names))
    given = [real_namespace.exec(name, "printenv", "NVIDIA_VISIBLE_DEVICES").strip().split(",") for name in names]
    assert [len(devices) for devices in given] == [there // 2] * 2
    assert not set(given[0]) & set(given[1])
    real_namespace.apply(pod(real_namespace, "third", node=node, gpus=there // 2 + 1))
    waiting = real_namespace.wait("pods", "third", lambda it: condition(it, "PodScheduled") == "False", within=60)
    assert "Insufficient nvidia.com/gpu" in waiting["status"]["conditions"][0]["message"]
    for name in names:
        real_namespace.delete("pods", name)
    real_namespace.wait("pods", "third", ready, within=120, what="Ready once the GPUs are free")


def test_a_claim_is_shared_by_pods_on_both_nodes_under_restricted_security(
    real_cluster: Cluster, real_namespace: Namespace, tmp_path: Path
) -> None:
    """What checkpoints need. `restricted` refuses hostPath itself, so the folder comes in through a claim."""
    if not real_cluster.local:
        pytest.skip("the claim is a folder of this machine, which the nodes of this cluster can't see")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    real_namespace.api.patch("namespaces", real_namespace.name, {"metadata": {"labels": labels}})
    tmp_path.chmod(0o777)
    claim = real_namespace.claim("checkpoints", tmp_path)
    strict = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": claim}}],
    }

    def strict_pod(name: str, node: str, script: str) -> Manifest:
        made = pod(real_namespace, name, node=node, script=script, **strict)
        made["spec"]["containers"][0] |= {
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        }
        return made

    here, there = real_cluster.real_nodes()[:2]
    run(
        real_namespace,
        strict_pod("writer", here, "import time; open('/checkpoints/step', 'w').write('7'); time.sleep(3600)"),
    )
    run(real_namespace, strict_pod("reader", there, "import time; time.sleep(3600)"))
    assert real_namespace.exec("reader", "cat", "/checkpoints/step") == "7"
    refused = pod(real_namespace, "refused", **{**strict, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]})
    with pytest.raises(ApiError, match="restricted volume types"):
        real_namespace.apply(refused)
