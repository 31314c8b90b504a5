"""Certificates: every component proves who it is with one of its own, so RBAC and the audit log tell them apart."""

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    folder: Path
    own: Pair

    def issue(self, name: str, subject: str, *, hosts: tuple[str, ...] = ()) -> Pair:
        """A certificate for `subject` (`/O=group/CN=user`), good for clients, and for a server if it has `hosts`."""
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        usage = "extendedKeyUsage=clientAuth,serverAuth" if hosts else "extendedKeyUsage=clientAuth"
        extensions = ["-addext", usage, "-addext", "basicConstraints=critical,CA:FALSE"]
        if hosts:
            kinds = ("IP:" + host if host.replace(".", "").isdigit() else "DNS:" + host for host in hosts)
            extensions += ["-addext", "subjectAltName=" + ",".join(kinds)]
        signer = ["-CA", str(self.own.certificate), "-CAkey", str(self.own.key)]
        _request(pair, subject, *signer, *extensions)
        return pair


def _request(pair: Pair, subject: str, *options: str) -> None:
    fresh_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", str(pair.key)]
    command = ["openssl", "req", "-x509", "-days", "365", "-subj", subject, *fresh_key]
    subprocess.run([*command, "-out", str(pair.certificate), *options], check=True, capture_output=True)


def make_authority(folder: Path, name: str) -> Authority:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    _request(pair, f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    return Authority(folder, pair)


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    authority: Path | None,
    client: Pair | None = None,
    token: str | None = None,
    name: str = "testbed",
) -> Path:
    """A kubeconfig that stands on its own: it can be copied anywhere, or mounted."""

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": server} | ({"certificate-authority-data": inline(authority)} if authority else {})
    user = {"token": token} if token else {}
    if client:
        user = {"client-certificate-data": inline(client.certificate), "client-key-data": inline(client.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path
