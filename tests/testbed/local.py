"""A cluster of the test bed's own: started here, taken apart at will, and gone without a trace when done.

    with LocalCluster.start(nodes=2) as cluster:
        cluster.nodes["node-2"].cut_off()

What it is made of decides what it needs: a control plane and fake nodes need no privileges; real nodes need root on Linux.
"""

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from testbed import addons, build, cache, images, kueue, needs, run
from testbed.addons import FakeNodes
from testbed.api import Manifest
from testbed.box import Box
from testbed.cluster import ABOUT, Cluster
from testbed.controlplane import ControlPlane, Ports, wait_until_answering
from testbed.network import Network
from testbed.node import Node, NodeSpec
from testbed.process import Process
from testbed.run import Run


class LocalCluster(Cluster):
    local = True

    def __init__(self, control: ControlPlane, nodes: dict[str, Node]) -> None:
        super().__init__(control.kubeconfig)
        self.control = control
        self.nodes = nodes

    @property
    def run(self) -> Run:
        return self.control.run

    @classmethod
    def start(
        cls,
        *,
        name: str | None = None,
        nodes: int | Iterable[NodeSpec] = 0,
        fake_nodes: int | FakeNodes = 0,
        kuberay: bool = True,
        kueue: bool = False,
    ) -> "LocalCluster":
        """Start a cluster and return when it is ready. What earlier, killed processes left behind is removed first."""
        specs = [NodeSpec()] * nodes if isinstance(nodes, int) else list(nodes)
        needs.require(nodes=bool(specs) or kueue)
        if kueue and not specs:
            raise ValueError("Kueue serves its webhooks from a pod: ask for at least one real node (nodes=1).")
        make_what_is_needed(nodes=bool(specs), kuberay=kuberay, fake_nodes=bool(fake_nodes), kueue=kueue)
        for swept in run.sweep():
            cache.say(f"removed the cluster {swept}, whose owner is gone")
        started = run.begin(name or f"t-{secrets.token_hex(3)}", networked=bool(specs))
        try:
            return cls._start(started, specs, fake_nodes, kuberay=kuberay, kueue=kueue)
        except BaseException as error:
            if isinstance(error, Exception):
                keep_logs_of(started)
            run.finish(started)
            raise

    @classmethod
    def _start(
        cls, started: Run, specs: list[NodeSpec], fake_nodes: int | FakeNodes, *, kuberay: bool, kueue: bool
    ) -> "LocalCluster":
        if specs:
            network = Network(started.facts["subnet"])
            box = network.make_control_box(started, build.built(build.PAUSE).command("pause"))
            started.note_box("control", box.pid)
            control = ControlPlane(started, box, network.control, Ports())
        else:
            control = ControlPlane(started, None, "127.0.0.1", Ports(*started.facts["ports"]))
        control.launch()
        nodes = {}
        for index, spec in enumerate(specs, 1):
            node = Node(index, spec, control, network, count=len(specs))
            nodes[node.name] = node
        started.note(nodes=[{"gpus": s.gpus, "labels": dict(s.labels), "taints": list(s.taints)} for s in specs])
        cluster = cls(control, nodes)
        with ThreadPoolExecutor() as pool:
            booting = [pool.submit(cluster._boot, node) for node in nodes.values()]
            control.complete()
            waiting = [pool.submit(addons.start_kuberay, control, cluster.api)] if kuberay else []
            if nodes:
                cluster._prepare_for_nodes(images.ray_pods())
                for booted in booting:
                    booted.result()
                waiting += [pool.submit(node.join, cluster.api) for node in nodes.values()]
            for each in waiting:
                each.result()
        cluster.api.wait("serviceaccounts", "default", lambda _: True, namespace="default", within=120)
        if fake_nodes:
            cluster.add_fake_nodes(FakeNodes(fake_nodes) if isinstance(fake_nodes, int) else fake_nodes)
        if kueue:
            cluster.install_kueue()
        return cluster

    @classmethod
    def attach(cls, name: str) -> "LocalCluster":
        """Take hold of one that was left up, from another process."""
        found = next((one for one in run.existing() if one.name == name and one.alive), None)
        if found is None:
            raise LookupError(f"There is no cluster {name!r} up. `make cluster-up` starts one.")
        facts = found.facts
        boxes = {key: Box(pid) for key, pid in facts.get("boxes", {}).items() if pid}
        if not boxes:
            return cls(ControlPlane(found, None, "127.0.0.1", Ports(*facts["ports"])), {})
        network = Network(facts["subnet"])
        control = ControlPlane(found, boxes["control"], network.control, Ports())
        nodes = {}
        for index, spec in enumerate(facts["nodes"], 1):
            described = NodeSpec(spec["gpus"], spec["labels"], tuple(spec["taints"]))
            node = Node(index, described, control, network, count=len(facts["nodes"]))
            node.box = boxes.get(node.name)
            nodes[node.name] = node
        return cls(control, nodes)

    def component(self, name: str) -> Process:
        """A part of the control plane, to stop, kill, pause or start: etcd, kube-apiserver, kube-controller-manager,
        kube-scheduler, kuberay-operator, kwok. Parts of a node: `cluster.nodes["node-1"].load("kubelet")`.
        """
        record = self.control.folder / f"{name}.json"
        if not record.exists():
            names = ", ".join(sorted(file.stem for file in self.control.folder.glob("*.json")))
            raise LookupError(f"There is no component {name!r} in this cluster; it has {names}.")
        return Process.load(record, run=self.run.folder)

    def wait_ready(self, *, within: float = 180.0) -> None:
        """Until the API server serves everything it knows; worth waiting for after it or etcd was started again."""
        server = self.component("kube-apiserver")
        wait_until_answering(server, self.control.server + "/readyz", within=within, trust=self.control.authority.own)

    def audit(self, user: str | None = None) -> Iterator[Manifest]:
        """Every request the API server has answered so far, oldest first: who, verb, objectRef, responseStatus."""
        with self.control.audit_log.open() as lines:
            for line in lines:
                if line.endswith("\n"):
                    entry = json.loads(line)
                    if user is None or entry["user"]["username"] == user:
                        yield entry

    def add_fake_nodes(self, nodes: FakeNodes) -> None:
        if not (self.control.folder / "kwok.json").exists():
            addons.start_kwok(self.control, self.api)
        addons.add_fake_nodes(self.api, nodes)

    def install_kueue(self, *, gpus: int | None = None) -> None:
        """A real Kueue, in a pod, with a queue that holds so many GPUs (all of the nodes' if not said)."""
        total = sum(node.spec.gpus for node in self.nodes.values())
        kueue.install(self, gpus=total if gpus is None else gpus)

    def load_image(self, archive: Path) -> None:
        """Put an image archive into every node."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.load_image(archive), self.nodes.values()))

    def stop(self) -> None:
        run.finish(self.run)

    def leave_up(self) -> None:
        """Let it run on when this process ends; `LocalCluster.attach(name)` finds it again."""
        self.run.leave_up()

    def _prepare_for_nodes(self, ray: images.RayPods) -> None:
        self.control.credentials("kube-proxy", "/CN=system:kube-proxy")
        self.control.credentials("coredns", "/CN=split-ppo:coredns")
        self.api.apply(*dns_roles())
        data = {"rayImage": ray.image.tag, "rayPackages": str(ray.packages)}
        about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ABOUT, "namespace": "kube-system"}}
        self.api.apply({**about, "data": data})

    def _boot(self, node: Node) -> None:
        """What a node does before it needs the API server."""
        node.boot()
        for image in (images.pause(), images.ray_pods().image):
            node.load_image(image.archive)

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def make_what_is_needed(*, nodes: bool, kuberay: bool, fake_nodes: bool, kueue: bool) -> None:
    """Compile and build before anything is started: the first time takes minutes, and may fail."""
    wanted = {build.KUBE: True, build.PAUSE: nodes, build.KUBERAY: kuberay, build.KWOK: fake_nodes, build.KUEUE: kueue}
    for program, needed in wanted.items():
        if needed:
            build.built(program)
    if nodes:
        images.pause()
        images.ray_pods()


def dns_roles() -> list[Manifest]:
    """CoreDNS reads what it answers from."""
    rbac = "rbac.authorization.k8s.io"
    reads = {"verbs": ["list", "watch"]}
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], **reads},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], **reads},
    ]
    name = {"name": "split-ppo:coredns"}
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}
    subject = {"kind": "User", "apiGroup": rbac, **name}
    reference = {"apiGroup": rbac, "kind": "ClusterRole", **name}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": name, "roleRef": reference}
    return [role, {**binding, "subjects": [subject]}]


def keep_logs_of(failed: Run) -> None:
    """Copy what the components of a cluster that did not come up said to where it outlives the cluster."""
    kept = cache.root() / "last-failed-start"
    shutil.rmtree(kept, ignore_errors=True)
    for log in failed.folder.glob("*/*.log"):
        target = kept / log.relative_to(failed.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target)
    if kept.exists():
        cache.say(f"the cluster did not come up; what its components said is in {kept}")
