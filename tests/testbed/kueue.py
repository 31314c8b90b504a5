"""A real Kueue: its own manifests and its own webhooks, served from a pod on a real node."""

import time
from typing import TYPE_CHECKING

from testbed import build, images
from testbed.api import ApiError, Manifest, condition, documents

if TYPE_CHECKING:
    from testbed.local import LocalCluster

NAMESPACE = "kueue-system"
QUEUE = "training"  # the LocalQueue every namespace is given by `add_queue`, and the ClusterQueue behind them
FLAVOR = "default"
API = "kueue.x-k8s.io/v1beta2"


def install(cluster: "LocalCluster", *, gpus: int) -> None:
    """Install it and return when it admits: its webhook has answered."""
    program = build.built(build.KUEUE)
    image = images.make("kueue", images.HERE / "kueue", files={"kueue": program.command("kueue")})
    cluster.load_image(image.archive)
    rendered = cluster.kubectl("kustomize", str(program.manifests("config") / "default"))
    manifests = [adjusted(manifest, image.tag) for manifest in documents(rendered)]
    crds = [manifest for manifest in manifests if manifest["kind"] == "CustomResourceDefinition"]
    cluster.api.apply(crds)
    for crd in crds:
        resource = "customresourcedefinitions.apiextensions.k8s.io"
        cluster.api.wait(resource, crd["metadata"]["name"], lambda it: condition(it, "Established") == "True")
    cluster.api.apply([manifest for manifest in manifests if manifest["kind"] != "CustomResourceDefinition"])
    cluster.api.wait(
        "deployments.apps",
        "kueue-controller-manager",
        lambda it: condition(it, "Available") == "True",
        namespace=NAMESPACE,
        within=180,
        what="Kueue to be Available",
    )
    apply_once_admitted(cluster, quota(gpus))


def adjusted(manifest: Manifest, image: str) -> Manifest:
    """Our image, never pulled, and a size that fits a machine of two cores."""
    if manifest["kind"] == "Deployment":
        container = manifest["spec"]["template"]["spec"]["containers"][0]
        container |= {
            "image": image,
            "imagePullPolicy": "Never",
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        }
    return manifest


def quota(gpus: int) -> list[Manifest]:
    sizes = {"cpu": "1000", "memory": "10Ti", "nvidia.com/gpu": str(gpus)}
    resources = [{"name": name, "nominalQuota": size} for name, size in sizes.items()]
    group = {"coveredResources": list(sizes), "flavors": [{"name": FLAVOR, "resources": resources}]}
    spec = {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}, "resourceGroups": [group]}
    return [
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}, "spec": {}},
        {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": spec},
        {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 1000},
    ]


def local_queue() -> Manifest:
    """A namespace's way to the quota."""
    return {"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": QUEUE}, "spec": {"clusterQueue": QUEUE}}


def apply_once_admitted(cluster: "LocalCluster", manifests: list[Manifest], *, within: float = 120.0) -> None:
    """A pod can be Ready before its webhook's certificate has reached everybody; only trying tells."""
    deadline = time.monotonic() + within
    while True:
        try:
            cluster.api.apply(manifests)
            return
        except ApiError as error:
            if error.status != 500 or time.monotonic() > deadline:
                raise
        time.sleep(0.5)
