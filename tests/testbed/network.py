"""The cables between the machines of a cluster with nodes.

The control plane's box holds a bridge; every node hangs on it by a cable (a veth pair), and one more cable leads to the
host, which thereby can reach the API server at 172.30.n.1. All routing and all firewall rules live inside the boxes: the
host gets one interface with one address and nothing else, and loses it with the boxes.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed import box
from testbed.box import Box
from testbed.process import surroundings
from testbed.run import CABLES, Run

BRIDGE = "nodes"
FIRST_NODE = 10  # node i has the address 172.30.n.(10 + i) and the pods 10.244.i.0/24


def on_host(*command: str) -> None:
    try:
        subprocess.run(["ip", *command], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"`ip {' '.join(command)}` failed: {error.stderr.strip()}") from error


@dataclass(frozen=True)
class Network:
    number: int

    @property
    def control(self) -> str:
        return f"172.30.{self.number}.1"

    @property
    def host(self) -> str:
        return f"172.30.{self.number}.254"

    @property
    def cable(self) -> str:
        """The host's interface."""
        return CABLES + str(self.number)

    def node(self, index: int) -> str:
        return f"172.30.{self.number}.{FIRST_NODE + index}"

    def pods(self, index: int) -> str:
        return f"10.244.{index}.0/24"

    def make_control_box(self, run: Run, pause: Path) -> Box:
        setup = f"""
            sysctl -qw net.ipv4.ip_forward=1
            ip link add {BRIDGE} type bridge
            ip address add {self.control}/24 dev {BRIDGE}
            ip link set {BRIDGE} up
        """
        log = run.folder / "control-box.log"
        made = box.make(pause, hostname="control", log=log, environment=surroundings(run.folder), setup=setup)
        on_host("link", "add", self.cable, "type", "veth", "peer", "name", "host", "netns", str(made.pid))
        on_host("address", "add", f"{self.host}/24", "dev", self.cable)
        on_host("link", "set", self.cable, "up")
        made.shell(f"ip link set host master {BRIDGE} up")
        return made

    def plug_in(self, node: Box, name: str, index: int, *, control: Box, others: list[int]) -> None:
        """Connect a node to the bridge and give everybody the way to its pods."""
        end = f"{self.cable}-{index}"
        on_host("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(node.pid))
        on_host("link", "set", end, "netns", str(control.pid), "name", name)
        control.shell(f"""
            ip link set {name} master {BRIDGE} up
            ip route replace {self.pods(index)} via {self.node(index)}
        """)
        ways = "\n".join(f"ip route replace {self.pods(other)} via {self.node(other)}" for other in others)
        node.shell(f"""
            sysctl -qw net.ipv4.ip_forward=1
            ip address add {self.node(index)}/24 dev eth0
            ip link set eth0 up
            ip route add default via {self.control}
            {ways}
        """)
