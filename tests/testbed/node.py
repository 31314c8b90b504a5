"""A real node: a box with containerd, a kubelet, kube-proxy, CoreDNS and GPUs that exist only on paper.

What the programs write under /var/lib, /var/log and /run stays inside the box or the run's folder, never on the host. The
rest of the disk is the host's, so pods can mount folders of the machine, such as a Python environment of gigabytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from testbed import box, build, cgroups, process
from testbed.api import Api, ready
from testbed.box import Box
from testbed.controlplane import PODS, ControlPlane, wait_for_process, wait_until_answering
from testbed.network import Network
from testbed.process import Process, surroundings

SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "localhost/split-ppo/pause:1"


@dataclass(frozen=True)
class NodeSpec:
    """What a real node is to look like."""

    gpus: int = 4
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


@dataclass
class Node:
    index: int
    spec: NodeSpec
    control: ControlPlane
    network: Network
    count: int  # of nodes in the cluster
    box: Box | None = None

    @property
    def name(self) -> str:
        return f"node-{self.index}"

    @property
    def address(self) -> str:
        return self.network.node(self.index)

    @property
    def folder(self) -> Path:
        return self.control.run.folder / self.name

    @property
    def group(self) -> str:
        return f"{self.control.run.group}/{self.name}"

    def process(self, name: str, command: list[str | Path]) -> Process:
        words = [str(word) for word in command]
        inside = self.box.pid if self.box else None
        return Process(name=name, command=words, run=self.control.run.folder, folder=self.folder, box=inside)

    def load(self, name: str) -> Process:
        """One of its components, to stop or start: containerd, kubelet, kube-proxy, coredns, gpu-device-plugin."""
        return Process.load(self.folder / f"{name}.json", run=self.control.run.folder)

    def boot(self) -> None:
        """Bring the machine up as far as containerd. Disk contents of an earlier life are kept, as on any machine."""
        control_box = self.control.box
        assert control_box is not None
        for part in ("upper", "work", "log", "containerd"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        cgroups.remove(self.group)
        cgroups.make(self.group)
        self.box = box.make(
            build.built(build.PAUSE).command("pause"),
            hostname=self.name,
            log=self.folder / "box.log",
            environment=surroundings(self.control.run.folder),
            setup=f"""
                cd {self.folder}
                mount -t overlay overlay -o lowerdir=/var/lib,upperdir=upper,workdir=work /var/lib
                mount --bind log /var/log
                mkdir -p /run/containerd/root /run/cni
                mount --bind containerd /run/containerd/root
                cd /
            """,
        )
        self.control.run.note_box(self.name, self.box.pid)
        others = [other for other in range(1, self.count + 1) if other != self.index]
        self.network.plug_in(self.box, self.name, self.index, control=control_box, others=others)
        self._write_settings()
        containerd = self.process("containerd", ["containerd", "--config", self.folder / "containerd.toml"])
        containerd.start()
        wait_for_process(containerd, self._containerd_answers, within=60)

    def join(self, api: Api) -> None:
        """Start the node's Kubernetes and wait until the node is Ready, with its GPUs, labels and taints."""
        kube = build.built(build.KUBE)
        pki = self.control.secrets
        self.process("coredns", [kube.command("coredns"), "-conf", self.folder / "Corefile"]).start()
        proxy_flags = ["--proxy-mode=nftables", f"--cluster-cidr={PODS}", "--conntrack-max-per-core=0"]
        name = f"--hostname-override={self.name}"
        proxy = [f"--kubeconfig={pki / 'kube-proxy.kubeconfig'}", name, *proxy_flags]
        self.process("kube-proxy", [kube.command("kube-proxy"), *proxy]).start()
        kubelet_flags = [f"--kubeconfig={pki / self.name}.kubeconfig", name, f"--node-ip={self.address}"]
        kubelet = self.process(
            "kubelet", [kube.command("kubelet"), f"--config={self.folder}/kubelet.yaml", *kubelet_flags]
        )
        kubelet.start()
        plugin = self.process("gpu-device-plugin", [kube.command("gpu-device-plugin"), f"--count={self.spec.gpus}"])
        plugin.start()
        api.wait("nodes", self.name, lambda _: True, within=120, what=f"{self.name} to register")
        taints = {"spec": {"taints": list(self.spec.taints)}} if self.spec.taints else {}
        api.patch("nodes", self.name, {"metadata": {"labels": dict(self.spec.labels)}, **taints})
        wait_until_answering(self.load("coredns"), f"http://{self.address}:8181/ready", within=120)
        self.wait_ready(api)

    def wait_ready(self, api: Api, *, within: float = 180.0) -> None:
        def complete(node: dict[str, object]) -> bool:
            allocatable = node["status"]["allocatable"]  # type: ignore[index]
            return ready(node) and int(allocatable.get("nvidia.com/gpu", 0)) == self.spec.gpus

        api.wait(
            "nodes", self.name, complete, within=within, what=f"{self.name} to be Ready with {self.spec.gpus} GPUs"
        )

    def run(self, *command: str | Path, stdin: bytes | None = None) -> str:
        """Run something on the node, as if logged in."""
        if self.box is None:
            raise RuntimeError(f"{self.name} is not up.")
        return self.box.run(*command, stdin=stdin)

    def ctr(self, *arguments: str | Path) -> str:
        return self.run("ctr", "--address", SOCKET, "--namespace", "k8s.io", *arguments)

    def load_image(self, archive: Path) -> None:
        """Import an image archive (OCI or Docker) into the node's containerd."""
        self.ctr("images", "import", archive)

    def cut_off(self) -> None:
        """Pull its network cable. Everything on it goes on running, and nobody outside hears of it."""
        self._cable("down")

    def restore(self) -> None:
        """Plug the cable in again."""
        self._cable("up")

    def kill(self) -> None:
        """Power loss: every process on it is gone at once, containers included."""
        if self.box is not None:
            process.end([self.box.pid])
            self.box = None
            self.control.run.note_box(self.name, None)

    def start(self, api: Api) -> None:
        """Bring a killed node back."""
        self.boot()
        self.join(api)

    def _cable(self, state: str) -> None:
        assert self.control.box is not None
        self.control.box.shell(f"ip link set {self.name} {state}")

    def _containerd_answers(self) -> bool:
        try:
            return bool(self.ctr("version"))
        except RuntimeError:
            return False

    def _write_settings(self) -> None:
        authority = self.control.authority
        if not (self.control.secrets / f"{self.name}.kubeconfig").exists():
            self.control.credentials(self.name, f"/O=system:nodes/CN=system:node:{self.name}")
            authority.issue(f"{self.name}-server", f"/CN={self.name}", hosts=(self.address, self.name))
        (self.folder / "resolv.conf").write_text(f"nameserver {self.address}\n")
        (self.folder / "Corefile").write_text(self._corefile())
        (self.folder / "containerd.toml").write_text(self._containerd_settings())
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet_settings()))
        (self.folder / "cni").mkdir(exist_ok=True)
        # ptp routes every packet through the node, so Services work between pods of one node without br_netfilter.
        addresses = {
            "type": "host-local",
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": self.network.pods(self.index)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}, ports]}
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))

    def _corefile(self) -> str:
        return f"""
        .:53 {{
            bind {self.address}
            errors
            ready {self.address}:8181
            kubernetes cluster.local in-addr.arpa {{
                kubeconfig {self.control.secrets / "coredns.kubeconfig"}
                pods insecure
                ttl 5
            }}
            cache 5
        }}
        """

    def _containerd_settings(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""
        version = 2
        root = "/run/containerd/root"
        state = "/run/containerd/state"
        disabled_plugins = [
          "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
          "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing",
        ]
        [grpc]
          address = "{SOCKET}"
        [plugins."io.containerd.internal.v1.opt"]
          path = "/run/containerd/opt"
        [{cri}]
          sandbox_image = "{PAUSE_IMAGE}"
          restrict_oom_score_adj = true
          [{cri}.cni]
            bin_dir = "/usr/lib/cni"
            conf_dir = "{self.folder / "cni"}"
          [{cri}.containerd.runtimes.runc]
            runtime_type = "io.containerd.runc.v2"
            [{cri}.containerd.runtimes.runc.options]
              SystemdCgroup = false
        """

    def _kubelet_settings(self) -> dict[str, object]:
        own = self.control.secrets / f"{self.name}-server"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.control.authority.own.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{own}.crt",
            "tlsPrivateKeyFile": f"{own}.key",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "clusterDomain": "cluster.local",
            "clusterDNS": [self.address],
            "resolvConf": str(self.folder / "resolv.conf"),
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.group}",
            "failCgroupV1": False,
            "failSwapOn": False,
            # A container's root may not raise its own limits or lower its oom score; these settings do without.
            "featureGates": {"KubeletInUserNamespace": True},
            "oomScoreAdj": 0,
            "maxOpenFiles": 20000,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "serializeImagePulls": False,
            "nodeLeaseDurationSeconds": 20,
            "shutdownGracePeriod": "0s",
        }
