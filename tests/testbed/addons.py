"""What runs against the API server from outside the cluster: KubeRay's operator and KWOK.

Both act under the ServiceAccount and the Roles their own projects ship, proven by a certificate instead of a token
(which would expire): RBAC does not see the difference, and the audit log names them.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from testbed import build
from testbed.api import Api, Manifest, condition, documents, ready
from testbed.controlplane import ControlPlane, wait_until_answering

SERVICE_ACCOUNTS = "/O=system:serviceaccounts/O=system:authenticated"
KUBERAY_NAMESPACE = "ray-system"
FAKE = "kwok.x-k8s.io/node"  # annotation and taint of a fake node
FAKE_PODS = "10.245.0.1/16"


def install_crds(api: Api, folder: Path) -> list[str]:
    """Apply every CRD of a folder, in parallel and as the bytes they are (KubeRay's are a megabyte each)."""

    def install(file: Path) -> str:
        name = ".".join(reversed(file.stem.split("_", 1)))  # ray.io_rayclusters.yaml
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        query = {"fieldManager": "split-ppo-testbed", "force": "true"}
        api.request("PATCH", path, file.read_bytes(), query=query, content_type="application/apply-patch+yaml")
        return name

    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(install, sorted(folder.glob("*.yaml"))))
    for name in names:
        api.wait(
            "customresourcedefinitions.apiextensions.k8s.io", name, lambda crd: condition(crd, "Established") == "True"
        )
    return names


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def placed(manifests: Iterable[Manifest], namespace: str) -> list[Manifest]:
    """The same manifests, with their ServiceAccount and the bindings to it in `namespace`."""
    moved = []
    for manifest in manifests:
        if manifest["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
            manifest["metadata"]["namespace"] = namespace
        for subject in manifest.get("subjects", []):
            subject["namespace"] = namespace
        moved.append(manifest)
    return moved


def start_kuberay(control: ControlPlane, api: Api) -> None:
    """CRDs, roles and the operator. Which namespaces it serves is all of them, as in a real installation."""
    kuberay = build.built(build.KUBERAY)
    install_crds(api, kuberay.manifests("crds"))
    api.apply(namespace(KUBERAY_NAMESPACE))
    files = [kuberay.manifests("rbac") / name for name in ("service_account.yaml", "role.yaml", "role_binding.yaml")]
    api.apply(placed(documents(*files), KUBERAY_NAMESPACE))
    user = f"system:serviceaccount:{KUBERAY_NAMESPACE}:kuberay-operator"
    kubeconfig = control.credentials("kuberay-operator", f"{SERVICE_ACCOUNTS}/CN={user}")
    operator = control.process(
        "kuberay-operator",
        [
            str(kuberay.command("kuberay")),
            f"--kubeconfig={kubeconfig}",
            "--enable-leader-election=false",
            "--use-kubernetes-proxy",  # it runs outside the pods' network and has no cluster DNS
            "--metrics-addr=0",
            f"--health-probe-bind-address={control.address}:{control.ports.kuberay}",
        ],
    )
    operator.start()
    wait_until_answering(operator, f"http://{control.address}:{control.ports.kuberay}/readyz", within=120)


@dataclass(frozen=True)
class FakeNodes:
    """So many nodes that exist only in the API: pods bound to them are Running at once, and nothing runs."""

    count: int
    gpus: int = 8
    prefix: str = "fake"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    tainted: bool = True  # keep pods off that do not tolerate fakes

    def manifests(self) -> list[Manifest]:
        size = {"cpu": "128", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti"}
        if self.gpus:
            size["nvidia.com/gpu"] = str(self.gpus)
        taints = [*self.taints, *([{"key": FAKE, "value": "fake", "effect": "NoSchedule"}] if self.tainted else [])]
        nodes = []
        for number in range(self.count):
            name = f"{self.prefix}-{number}"
            standard = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
            metadata = {
                "name": name,
                "annotations": {FAKE: "fake"},
                "labels": {**standard, "type": "fake", **self.labels},
            }
            status = {"allocatable": size, "capacity": size, "phase": "Running"}
            spec = {"taints": taints} if taints else {}
            nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})
        return nodes


def start_kwok(control: ControlPlane, api: Api) -> None:
    kwok = build.built(build.KWOK)
    files = [kwok.manifests("rbac") / name for name in ("service_account.yaml", "role.yaml", "role_binding.yaml")]
    api.apply(placed(documents(*files), "kube-system"))
    stages = kwok.manifests("stages")
    behaviour = documents(*(stages / part for part in ("node/fast", "node/heartbeat-with-lease", "pod/fast")))
    config = control.folder / "kwok.yaml"
    config.write_text(yaml.safe_dump_all([stage for stage in behaviour if stage["kind"] == "Stage"]))
    user = "system:serviceaccount:kube-system:kwok-controller"
    process = control.process(
        "kwok",
        [
            str(kwok.command("kwok")),
            f"--kubeconfig={control.credentials('kwok', f'{SERVICE_ACCOUNTS}/CN={user}')}",
            f"--config={config}",
            f"--manage-nodes-with-annotation-selector={FAKE}=fake",
            f"--cidr={FAKE_PODS}",
            f"--server-address={control.address}:{control.ports.kwok}",
            "--node-lease-duration-seconds=40",
        ],
    )
    process.start()
    wait_until_answering(process, f"http://{control.address}:{control.ports.kwok}/healthz", within=120)


def add_fake_nodes(api: Api, nodes: FakeNodes) -> None:
    """Create them and wait until all are Ready."""
    names = set()
    for manifest in nodes.manifests():
        api.create(manifest)
        names.add(manifest["metadata"]["name"])
    api.wait_all(
        "nodes",
        lambda found: names <= {node["metadata"]["name"] for node in found if ready(node)},
        labels="type=fake",
        within=60 + nodes.count,
        what=f"{nodes.count} fake nodes to be Ready",
    )
