"""kill -9 before and after every write: whatever was half done, the next process ends where an undisturbed one would."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from builders import job_document
from chaos.conftest import Replicas
from chaos.proxy import Call, Fault, FaultProxy
from cluster.operators import JOBS, RAY_CLUSTERS, UNTIL_TOLD, install_crd, phase, small_job
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

NOT_STARTING = {"runPolicy": {"startupDeadlineSeconds": 3, "backoffLimit": 0}}


class Killer:
    """Kills the operator at writes, and has another one started: each the first time before it, the second time after it."""

    def __init__(self, replicas: Replicas, chance: float, rng: random.Random) -> None:
        self.replicas, self.chance, self.rng, self.kills = replicas, chance, rng, 0
        self._times: Counter[tuple[str, ...]] = Counter()

    def rule(self, call: Call) -> Fault:
        if not call.writes or call.lease or self.rng.random() > self.chance:
            return Fault()
        self._times[call.meaning] += 1
        match self._times[call.meaning]:
            case 1:
                return Fault(before=self._kill, drop=True)
            case 2:
                return Fault(after=self._kill, lose_reply=True)
        return Fault()

    def _kill(self) -> None:
        self.kills += 1
        self.replicas.current.kill()

    def revive(self) -> None:
        if not self.replicas.current.running:
            self.replicas.start()


def wait_through_kills(
    namespace: Namespace, killer: Killer, name: str, ends: tuple[str, ...], within: float
) -> Manifest:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        killer.revive()
        job = namespace.get(JOBS, name)
        if phase(job) in ends:
            return job
        time.sleep(0.05)  # the operator's death tells nobody
    raise AssertionError(f"after {killer.kills} kills the job is still {namespace.get(JOBS, name).get('status')}")


def made(proxy: FaultProxy, resource: str) -> list[str]:
    """Names of objects of this kind that were really created."""
    return [path.rsplit("/", 1)[1] for _, path, code in proxy.written if f"/{resource}/" in path and code == 201]


def go_through(namespace: Namespace, proxy: FaultProxy, killer: Killer) -> None:
    """To its end on a cluster without nodes: the pools never get ready, and the deadline is the end."""
    proxy.rule = killer.rule
    namespace.apply(job_document(NOT_STARTING))
    job = wait_through_kills(namespace, killer, "job", ("Failed", "Succeeded"), within=300)
    assert (phase(job), job["status"]["reason"]) == ("Failed", "StartupDeadline")
    assert (job["status"]["attempt"], job["status"]["failures"], len(job["status"]["attempts"])) == (1, 1, 1)
    deadline = time.monotonic() + 120
    while namespace.find(RAY_CLUSTERS):
        assert time.monotonic() < deadline, "the RayCluster is not given back"
        killer.revive()
        time.sleep(0.05)
    assert made(proxy, "rayclusters") == ["job-1"], "one RayCluster, once"
    assert "Traceback" not in killer.replicas.said()


def test_killed_at_random_writes(replicas: Replicas, proxy: FaultProxy, namespace: Namespace, seed: int) -> None:
    killer = Killer(replicas, 0.3, random.Random(seed))
    go_through(namespace, proxy, killer)


@pytest.mark.slow
def test_killed_before_and_after_every_write(replicas: Replicas, proxy: FaultProxy, namespace: Namespace) -> None:
    killer = Killer(replicas, 1.0, random.Random(0))
    go_through(namespace, proxy, killer)
    assert killer.kills >= 16
    print(f"{killer.kills} kills")


@pytest.mark.slow
def test_killed_before_and_after_every_write_of_a_real_run(
    local_real_cluster: LocalCluster, real_namespace: Namespace, tmp_path: Path
) -> None:
    """With real pods and a real submission, of which there is one however often its reply is lost."""
    install_crd(local_real_cluster)
    program = 'open("/tmp/starts", "a").write("x")\n' + UNTIL_TOLD
    with FaultProxy(local_real_cluster.kubeconfig) as proxy:
        replicas = Replicas(proxy.kubeconfig(tmp_path), tmp_path)
        killer = Killer(replicas, 1.0, random.Random(0))
        proxy.rule = killer.rule
        try:
            real_namespace.apply(*small_job(real_namespace, program))
            wait_through_kills(real_namespace, killer, "small", ("Running",), within=500)
            [head] = real_namespace.find("pods", labels="ray.io/node-type=head")
            real_namespace.exec(head["metadata"]["name"], "touch", "/tmp/go")
            starts = real_namespace.exec(head["metadata"]["name"], "cat", "/tmp/starts")
            job = wait_through_kills(real_namespace, killer, "small", ("Succeeded", "Failed"), within=300)
            deadline = time.monotonic() + 120
            while real_namespace.find(RAY_CLUSTERS):
                assert time.monotonic() < deadline, "the RayCluster is not given back"
                killer.revive()
                time.sleep(0.05)
        finally:
            replicas.end()
    assert phase(job) == "Succeeded", job["status"]
    assert (job["status"]["attempt"], job["status"]["failures"]) == (1, 0)
    assert starts == "x", "one submission"
    assert made(proxy, "rayclusters") == ["small-1"]
    print(f"{killer.kills} kills")
