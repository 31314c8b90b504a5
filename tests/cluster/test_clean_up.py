"""Nothing outlives a cluster: after `down`, Ctrl-C, or a kill -9 followed by the next start the host is as before."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.test_nodes import pod
from cluster.test_nodes import run as run_pods
from testbed import needs, run
from testbed.cluster import Namespace
from testbed.local import LocalCluster

TESTS = Path(__file__).parents[1]
# Where the programs of a node would write if they were not kept in their box, and what they call it.
HOST_FOLDERS = ("/var/lib", "/var/log", "/run", "/opt", "/etc", "/usr/libexec")
TELLING = ("kube", "cni", "containerd", "containers", "pods", "netns", "calico", "xtables")


class Host:
    """What a cluster could leave behind, seen without asking the test bed's own bookkeeping.

    Other clusters may come and go meanwhile (a second checkout, another test): what carries their names is left out,
    and so is what anybody mounts under /tmp.
    """

    def __init__(self, name: str) -> None:
        others = [other for other in run.existing() if other.name != name]
        foreign = [other.name for other in others] + [f"sppo{other.facts.get('subnet')}" for other in others]

        def own(text: str) -> bool:
            return not any(word in text for word in foreign)

        def said(*command: str) -> list[str]:
            lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
            return sorted(line for line in lines if own(line))

        mounts = (line.split()[3:] for line in Path("/proc/self/mountinfo").read_text().splitlines())
        self.mounts = sorted(" ".join(mount) for mount in mounts if own(mount[1]) and not mount[1].startswith("/tmp/"))
        self.interfaces = sorted(filter(own, os.listdir("/sys/class/net")))  # noqa: PTH208
        self.addresses = said("ip", "-brief", "address")
        self.routes = said("ip", "route", "show", "table", "all")
        self.firewall = said("nft", "list", "ruleset")
        self.settings = said("sysctl", "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding")
        self.named_namespaces = said("ip", "netns", "list")
        groups = (Path(folder) for folder, _, _ in os.walk("/sys/fs/cgroup") if "split-ppo" in folder)
        self.groups = sorted(str(group) for group in groups if own(str(group)))
        entries = (entry for top in HOST_FOLDERS if Path(top).is_dir() for entry in Path(top).iterdir())
        self.folders = sorted(str(entry) for entry in entries if any(word in entry.name for word in TELLING))


def processes_of(name: str) -> list[str]:
    """Command lines of everything that has to do with the run: by its folder, or by the control group (containers)."""
    folder = str(run.runs() / name)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
                groups = (entry / "cgroup").read_text()
            except OSError:
                continue
            if folder in words or folder in environment or f"/split-ppo-testbed-{name}-" in groups:
                found.append(words)
    return found


def launch(*arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "testbed", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def output_of(*arguments: str) -> str:
    process = launch(*arguments)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output


def wait_until_node_starts(owner: subprocess.Popen[str], name: str) -> None:
    """Until the kubelet of the first node runs: everything there is to leave behind is there by then."""
    while not (run.runs() / name / "node-1" / "kubelet.json").exists():
        try:
            owner.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"it ended before the node started: {owner.communicate()[0]}")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name for a cluster of this test, and no trace of it afterwards even if the test fails."""
    if request.config.getoption("--cluster-kubeconfig"):
        pytest.skip("no cluster is started when one is given")
    if reason := needs.reason_against(nodes=True):
        pytest.skip(reason)
    needs.require(nodes=True)
    chosen = f"c-{secrets.token_hex(3)}"
    yield chosen
    output_of("down", "--name", chosen)


@pytest.mark.nodes
def test_down_leaves_nothing_behind_and_the_cluster_beside_it_alone(
    name: str, local_real_cluster: LocalCluster, real_namespace: Namespace
) -> None:
    run_pods(real_namespace, pod(real_namespace, "neighbour", gpus=1))
    before = Host(name)
    said = output_of("up", "--name", name, "--nodes", "1", "--fake-nodes", "2")
    kubeconfig = run.runs() / name / "kubeconfig"
    assert f"export KUBECONFIG={kubeconfig}" in said
    cluster = LocalCluster.attach(name)
    assert cluster.real_nodes() == ["node-1"]
    assert len(cluster.api.find("nodes")) == 3
    namespace = cluster.make_namespace("on-one-node")
    run_pods(namespace, pod(namespace, "busy", gpus=1))
    assert namespace.exec("busy", "printenv", "HOSTNAME").strip() == "busy"
    assert any("kubelet" in words for words in processes_of(name))
    assert any("http.server" in words for words in processes_of(name)), "there is no container to be left behind"
    assert Host(name).groups != before.groups
    assert "is up already" in output_of("up", "--name", name, "--nodes", "1")
    assert f"The cluster {name} is gone" in output_of("down", "--name", name)
    assert processes_of(name) == []
    assert vars(Host(name)) == vars(before)
    assert real_namespace.exec("neighbour", "printenv", "HOSTNAME").strip() == "neighbour"
    assert len(local_real_cluster.real_nodes()) == 2


@pytest.mark.nodes
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM], ids=lambda told: told.name)
def test_being_told_to_end_leaves_nothing_behind(name: str, told: signal.Signals) -> None:
    before = Host(name)
    owner = launch("up", "--name", name, "--nodes", "1")
    wait_until_node_starts(owner, name)
    owner.send_signal(told)
    output, _ = owner.communicate()
    assert "Interrupted; nothing is left behind." in output
    assert processes_of(name) == []
    assert not (run.runs() / name).exists()
    assert vars(Host(name)) == vars(before)


@pytest.mark.nodes
def test_the_next_start_removes_what_a_killed_process_left_behind(name: str) -> None:
    before = Host(name)
    owner = launch("up", "--name", name, "--nodes", "1")
    wait_until_node_starts(owner, name)
    owner.kill()
    owner.communicate()
    assert processes_of(name), "there is nothing to clean up: this test would prove nothing"
    with LocalCluster.start(kuberay=False):
        assert processes_of(name) == []
        assert not (run.runs() / name).exists()
    assert vars(Host(name)) == vars(before)
