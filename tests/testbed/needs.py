"""What the machine must have for which part of the test bed, in words a person can act on."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from testbed import cache

# command -> the Debian package it comes in
CONTROL_PLANE = {"openssl": "openssl"}
NODES = {
    "containerd": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "mount": "mount",
    "sysctl": "procps",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


class Unavailable(RuntimeError):
    """This machine can't do what was asked; the message says why and what would change it."""


def missing_packages(commands: dict[str, str]) -> list[str]:
    path = os.environ.get("PATH", os.defpath) + ":" + SYSTEM_PATH
    there = {command for command in commands if shutil.which(command, path=path)}
    return sorted({package for command, package in commands.items() if command not in there})


def reason_against(*, nodes: bool) -> str | None:
    """Why this machine can't run a control plane (and nodes, if asked for), or None when it can."""
    if platform.system() != "Linux":
        return f"the test bed needs Linux, this is {platform.system()}"
    if nodes and os.geteuid() != 0:
        return "real nodes need root (network namespaces, mounts, cgroups), this is an ordinary user"
    if nodes and (refused := refused_privilege()):
        return f"real nodes need more privileges than this root has (a container without them?): {refused}"
    packages = missing_packages(CONTROL_PLANE | (NODES if nodes else {}))
    if packages and not can_install():
        return f"these packages are missing: {' '.join(packages)}; install them, or run as root on Debian or Ubuntu"
    return None


def refused_privilege() -> str | None:
    """What the kernel says to an attempt at what nodes do all the time, if it says no."""
    attempt = "mount -t tmpfs tmpfs /mnt && { ! command -v ip >/dev/null || ip link add probe type veth; }"
    said = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", attempt], capture_output=True, text=True
    )
    if said.returncode:
        return said.stderr.strip()
    writable = any(os.access(folder, os.W_OK) for folder in Path("/sys/fs/cgroup").iterdir())
    return None if writable else "/sys/fs/cgroup can't be written to"


def can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def require(*, nodes: bool) -> None:
    """Make sure the machine has what it needs, installing Debian packages where that is possible."""
    reason = reason_against(nodes=nodes)
    if reason:
        raise Unavailable(f"A cluster can't be started here: {reason}.")
    packages = missing_packages(CONTROL_PLANE | (NODES if nodes else {}))
    if packages:
        install(packages)


def install(packages: list[str]) -> None:
    """apt starts daemons when it installs them; the test bed runs its own, so that is forbidden meanwhile."""
    with cache.locked(cache.root() / "locks" / "apt", waiting="another process is installing packages, waiting for it"):
        cache.say(f"installing {' '.join(packages)} with apt-get")
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        policy = Path("/usr/sbin/policy-rc.d")
        ours = not policy.exists()
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        try:
            for command in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *packages]):
                subprocess.run(["apt-get", *command], env=environment, check=True, stdout=subprocess.DEVNULL)
        finally:
            if ours:
                policy.unlink()
