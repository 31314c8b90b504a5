"""The control plane: etcd, API server, controller-manager and scheduler, and where they run.

Without nodes they run on the host's loopback and need no root. With nodes they run in a box of their own, a machine beside
the nodes, so that a node can be cut off or killed without taking the API server with it. Either way each component has
its own certificate, RBAC decides, and every request ends up in the audit log.
"""

import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from testbed import build, pki
from testbed.box import Box
from testbed.process import Process
from testbed.run import Run

SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"
# Everything at Metadata: who did what to which object, enough to compare a Role with the calls really made.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class Ports:
    api: int = 6443
    etcd: int = 2379
    etcd_peers: int = 2380
    kuberay: int = 8082
    kwok: int = 10247


@dataclass
class ControlPlane:
    run: Run
    box: Box | None
    address: str
    ports: Ports

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports.api}"

    @property
    def folder(self) -> Path:
        return self.run.folder / "control"

    @property
    def secrets(self) -> Path:
        return self.run.folder / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.run.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def authority(self) -> pki.Authority:
        return pki.Authority(self.secrets, pki.Pair(self.secrets / "ca.crt", self.secrets / "ca.key"))

    def process(self, name: str, command: list[str]) -> Process:
        box = self.box.pid if self.box else None
        return Process(name=name, command=command, run=self.run.folder, folder=self.folder, box=box)

    def credentials(self, name: str, subject: str) -> Path:
        """A kubeconfig for a component, with a certificate of its own."""
        client = self.authority.issue(name, subject)
        path = self.run.folder / "kubeconfig" if name == "admin" else self.secrets / f"{name}.kubeconfig"
        title = f"split-ppo-{self.run.name}" if name == "admin" else name
        return pki.write_kubeconfig(
            path, server=self.server, authority=self.authority.own.certificate, client=client, name=title
        )

    def launch(self) -> None:
        """Make the certificates, then start etcd and the API server without waiting for them."""
        kube = build.built(build.KUBE)
        self.folder.mkdir(parents=True, exist_ok=True)
        pki.make_authority(self.secrets, "ca")
        front = pki.make_authority(self.secrets, "front-proxy-ca").issue("front-proxy", "/CN=front-proxy")
        own = self.authority.issue("kube-apiserver", "/O=system:masters/CN=kube-apiserver", hosts=self._api_hosts())
        subprocess.run(["openssl", "genrsa", "-out", self.secrets / "sa.key", "2048"], check=True, capture_output=True)
        self.credentials("admin", "/O=system:masters/CN=admin")
        (self.folder / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))

        etcd = self.process("etcd", [str(kube.command("etcd")), *self._etcd_flags()])
        etcd.start()
        server = self.process("kube-apiserver", [str(kube.command("kube-apiserver")), *self._api_flags(own, front)])
        server.start()

    def complete(self) -> None:
        """Wait until the API server is ready for everybody, and start what needs it."""
        kube = build.built(build.KUBE)
        server = Process.load(self.folder / "kube-apiserver.json", run=self.run.folder)
        common = ["--leader-elect=false", "--secure-port=0"]
        manager = self.credentials("kube-controller-manager", "/CN=system:kube-controller-manager")
        scheduler = self.credentials("kube-scheduler", "/CN=system:kube-scheduler")
        wait_until_answering(server, self.server + "/readyz", within=120, trust=self.authority.own)
        command = [str(kube.command("kube-controller-manager")), f"--kubeconfig={manager}", *common]
        self.process("kube-controller-manager", [*command, *self._manager_flags()]).start()
        command = [str(kube.command("kube-scheduler")), f"--kubeconfig={scheduler}", *common]
        self.process("kube-scheduler", command).start()

    def _api_hosts(self) -> tuple[str, ...]:
        inside = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        return (self.address, "127.0.0.1", "localhost", KUBERNETES_SERVICE, *inside)

    def _etcd_flags(self) -> list[str]:
        clients, peers = (f"http://127.0.0.1:{port}" for port in (self.ports.etcd, self.ports.etcd_peers))
        return [
            f"--data-dir={self.run.folder / 'etcd'}",
            *(f"--{flag}={clients}" for flag in ("listen-client-urls", "advertise-client-urls")),
            *(f"--{flag}={peers}" for flag in ("listen-peer-urls", "initial-advertise-peer-urls")),
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",  # nothing here is to survive the machine
            "--log-level=warn",
        ]

    def _api_flags(self, own: pki.Pair, front: pki.Pair) -> list[str]:
        ca = self.authority.own.certificate
        return [
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={self.ports.api}",
            f"--tls-cert-file={own.certificate}",
            f"--tls-private-key-file={own.key}",
            f"--client-ca-file={ca}",
            f"--kubelet-client-certificate={own.certificate}",
            f"--kubelet-client-key={own.key}",
            f"--kubelet-certificate-authority={ca}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--proxy-client-cert-file={front.certificate}",
            f"--proxy-client-key-file={front.key}",
            f"--requestheader-client-ca-file={self.secrets / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--enable-aggregator-routing=true",  # webhooks are reached at their pods: no kube-proxy is needed here
            "--authorization-mode=Node,RBAC",
            # The second is on in OpenShift: to make an object that is owned by another takes a right of its own.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true",
            f"--service-account-key-file={self.secrets / 'sa.key'}",
            f"--service-account-signing-key-file={self.secrets / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={SERVICES}",
            f"--endpoint-reconciler-type={'lease' if self.box else 'none'}",
            f"--audit-policy-file={self.folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=4096",  # in megabytes: one file, never rotated within a run
        ]

    def _manager_flags(self) -> list[str]:
        return [
            f"--root-ca-file={self.authority.own.certificate}",
            f"--service-account-private-key-file={self.secrets / 'sa.key'}",
            "--use-service-account-credentials=true",
            # A node that goes silent is reported after half a minute, not after most of one.
            "--node-monitor-grace-period=30s",
        ]


def wait_until_answering(process: Process, url: str, *, within: float, trust: pki.Pair | None = None) -> None:
    """Wait until `url` answers 200, which fails at once when the process behind it dies."""
    context = ssl.create_default_context(cafile=str(trust.certificate)) if trust else None
    secure = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), secure)

    def answers() -> bool:
        with opener.open(url, timeout=5) as response:
            return bool(response.status == 200)

    wait_for_process(process, answers, within=within)


def wait_for_process(process: Process, done: Callable[[], bool], *, within: float) -> None:
    """Ask `done` until it says yes, and notice at once when the process it asks about dies."""
    deadline = time.monotonic() + within
    while True:
        try:
            if done():
                return
        except OSError:
            pass
        if process.ended(within=0.05):
            raise RuntimeError(
                f"{process.name} ended by itself. Its last words ({process.log}):\n{process.last_words()}"
            )
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{process.name} was not ready after {within:.0f} s. Its last words ({process.log}):\n{process.last_words()}"
            )
