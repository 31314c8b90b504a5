"""What the operator costs, beside KubeRay's own RayJob, on one API server in one run: `make bench-operator`.

- Latency: from a job's creation to its RayCluster's, one at a time, ours and a RayJob of the same RayCluster in turn.
- Storm: many jobs at once on fake nodes: RayClusters per second beside the head pods per second that KubeRay makes of them,
  the operator's memory, and its API requests per job up to the RayCluster's creation (from the audit log).
- Rest: as many jobs that wait, are suspended, or are refused; writes in the given time.

Ratios and counts are what to look at; seconds depend on the machine.
"""

import argparse
import json
import os
import platform
import re
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from builders import job_document
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, install_crd, phase
from split_ppo.api.job import parse_job
from split_ppo.placement.checks import check_job
from split_ppo_operator.desired.raycluster import ray_cluster
from testbed.addons import FAKE, FakeNodes
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

ROOT = Path(__file__).resolve().parents[1]
RAY_JOBS = "rayjobs.ray.io"
WRITES = ("create", "update", "patch", "delete")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30, help="jobs of each kind for the latency")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of the storm, and at rest")
    parser.add_argument("--rest", type=float, default=120.0, help="seconds of rest")
    parser.add_argument("--parts", default="latency,rest,storm", help="some of them; the others' results are kept")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/operator.json")
    options = parser.parse_args()
    found = json.loads(options.results.read_text()) if options.results.exists() else {}
    found["machine"] = {"cpus": len(os.sched_getaffinity(0)), "system": platform.platform()}
    options.results.parent.mkdir(exist_ok=True, parents=True)
    with LocalCluster.start() as cluster, tempfile.TemporaryDirectory() as folder:
        install_crd(cluster)
        for part in options.parts.split(","):
            busy = os.getloadavg()[0]
            found[part] = PARTS[part](cluster, Path(folder), options) | {"load_average_before": round(busy, 1)}
            print(json.dumps({part: found[part]}, indent=2), flush=True)
            options.results.write_text(json.dumps(found, indent=2) + "\n")
    print(f"wrote {options.results}")


def small(name: str, spec: dict[str, Any] | None = None) -> Manifest:
    """Two pools of one GPU, on fake nodes if there are any."""
    tolerations = [{"key": FAKE, "operator": "Exists"}]
    base = {
        "placement": {"total": {"gpusPerNode": 2, "tolerations": tolerations}, "head": {"tolerations": tolerations}},
        **(spec or {}),
    }
    return job_document(base, name=name)


@contextmanager
def operating(cluster: LocalCluster, folder: Path) -> Iterator[Operator]:
    operator = Operator(cluster.kubeconfig, folder / "operator.log", "--leader-election=false")
    try:
        yield operator
        assert operator.running, (folder / "operator.log").read_text()[-2000:]
    finally:
        if operator.running:
            operator.stop()


class Seen:
    """When objects of a kind were first seen, by owner's name; a watch of its own, so that nothing waits for anything."""

    def __init__(self, namespace: Namespace, resource: str, *, labels: str = "") -> None:
        self.at: dict[str, float] = {}
        self._arguments = (namespace, resource, labels)
        self._changed = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        namespace, resource, labels = self._arguments
        watched = namespace.api.watched(resource, namespace=namespace.name, labels=labels, within=3600)
        for objects in watched:
            now = time.monotonic()
            with self._changed:
                for found in objects:
                    owner = found["metadata"].get("ownerReferences", [{}])[0].get("name", "")
                    self.at.setdefault(owner, now)
                self._changed.notify_all()

    def wait(self, count: int, within: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.at) >= count, within):
                raise SystemExit(f"after {within:.0f} s there are {len(self.at)} of {count} {self._arguments[1]}")


def latency(cluster: LocalCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """By the API server's own clock: from its answer to the job's creation to its answer to the RayCluster's."""
    namespace = cluster.make_namespace("latency")
    with operating(cluster, folder):
        seen = Seen(namespace, RAY_CLUSTERS)
        names = [("warm", "warm-ray"), *((f"ours-{number}", f"theirs-{number}") for number in range(options.pairs))]
        for ours, theirs in names:
            for kind, manifest in ((JOBS, small(ours)), (RAY_JOBS, ray_job(theirs))):
                count = len(seen.at)
                namespace.api.create(manifest, namespace=namespace.name)
                seen.wait(count + 1, 60)
                # Gone before the next: jobs that pile up are looked at all the time, which would be measured with them.
                namespace.delete(kind, manifest["metadata"]["name"])
                namespace.wait_all("pods", lambda pods: not pods, within=60, what="the pods to go")
                time.sleep(1)  # what is left of it
    namespace.remove(within=600)
    answered = {resource: created(cluster, resource) for resource in ("splitppojobs", "rayjobs", "rayclusters")}
    jobs = answered["splitppojobs"] | answered["rayjobs"]
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for name, at in answered["rayclusters"].items():
        job = name.rpartition("-")[0]
        if job in jobs and job.partition("-")[0] in took:
            took[job.partition("-")[0]].append(at - jobs[job])
    assert [len(samples) for samples in took.values()] == [options.pairs] * 2, took
    ours, theirs = (statistics.median(samples) for samples in took.values())
    return {
        "pairs": options.pairs,
        "ours_p50_seconds": round(ours, 4),
        "rayjob_p50_seconds": round(theirs, 4),
        "created_to_raycluster_over_rayjob": round(ours / theirs, 3),
    }


def created(cluster: LocalCluster, resource: str) -> dict[str, float]:
    """When the API server answered the creation of each object of this kind."""
    found = {}
    for entry in cluster.audit():
        about = entry.get("objectRef", {})
        if about.get("resource") == resource and entry["responseStatus"].get("code") == 201 and "name" in about:
            found[about["name"]] = datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
    return found


def ray_job(name: str) -> Manifest:
    """KubeRay's own job with the RayCluster that we would make."""
    job = parse_job(small(name))
    spec = ray_cluster(job, check_job(job), attempt=1)["spec"]
    document = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}}
    return {**document, "spec": {"entrypoint": "python -c 1", "rayClusterSpec": spec}}


def storm(cluster: LocalCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    jobs, nodes = options.jobs, options.jobs * 2 // 8 + 1
    cluster.add_fake_nodes(FakeNodes(nodes, gpus=8))
    namespace = cluster.make_namespace("storm")
    with operating(cluster, folder) as operator:
        clusters = Seen(namespace, RAY_CLUSTERS)
        heads = Seen(namespace, "pods", labels="ray.io/node-type=head")
        memory = Memory(operator.process.pid)
        began = time.monotonic()
        for number in range(jobs):
            namespace.api.create(small(f"job-{number:05}"), namespace=namespace.name)
        created = time.monotonic()
        clusters.wait(jobs, 1800)
        heads.wait(jobs, 3600)
        last_cluster, last_head = max(clusters.at.values()), max(heads.at.values())
        counts = sorted(requests_up_to_cluster(cluster, "storm").values())
        return {
            "jobs": jobs,
            "fake_nodes": nodes,
            "create_seconds": round(created - began, 1),
            "rayclusters_per_second": round(jobs / (last_cluster - began), 2),
            "kuberay_heads_per_second": round(jobs / (last_head - began), 2),
            "rayclusters_over_kuberay_heads": round((last_head - began) / (last_cluster - began), 2),
            "api_requests_per_job_p50": counts[len(counts) // 2],
            "api_requests_per_job_max": counts[-1],
            "resident_memory_mb": round(memory.highest() / 2**20, 1),
        }


class Memory:
    """The most that a process ever held, by the kernel's own account."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")

    def highest(self) -> int:
        line = next(line for line in self._status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024


def requests_up_to_cluster(cluster: LocalCluster, namespace: str) -> Counter[str]:
    """Per job: every request that names it, the one that made its RayCluster included."""
    counts: Counter[str] = Counter()
    done: set[str] = set()
    for entry in ours(cluster, namespace):
        about = entry.get("objectRef", {})
        # What is created has its name from the answer, lists name the job in their selector.
        found = re.search(r"job-\d{5}", f"{about.get('name', '')} {entry['requestURI']}")
        if found is None or found[0] in done:
            continue
        counts[found[0]] += 1
        if about.get("resource") == "rayclusters" and entry["verb"] in WRITES:
            done.add(found[0])
    return counts


def ours(cluster: LocalCluster, namespace: str) -> Iterator[Manifest]:
    for entry in cluster.audit():
        if entry.get("userAgent") == "split-ppo" and f"/namespaces/{namespace}/" in entry["requestURI"]:
            yield entry


def rest(cluster: LocalCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """A third of the jobs wait for GPUs, a third are suspended, a third are refused."""
    jobs, seconds = options.jobs, options.rest
    namespace = cluster.make_namespace("rest")
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("waiting", {}),
        ("suspended", {"suspend": True}),
        ("refused", {"training": {"batchSize": 3}}),
    )
    names = []
    for number in range(jobs):
        kind, spec = kinds[number % 3]
        names.append(f"{kind}-{number:05}")
        namespace.api.create(small(names[-1], spec), namespace=namespace.name)
    with operating(cluster, folder):
        quiet_since, last = time.monotonic(), -1
        deadline = time.monotonic() + 1800
        while time.monotonic() - quiet_since < 20:
            if time.monotonic() > deadline:
                raise SystemExit("the jobs do not come to rest")
            time.sleep(2)
            written = writes(cluster)
            if written != last:
                quiet_since, last = time.monotonic(), written
        phases = Counter(phase(job) for job in namespace.find(JOBS))
        before, looked = writes(cluster), sum(1 for _ in ours(cluster, "rest"))
        time.sleep(seconds)
        result = {
            "jobs": jobs,
            "phases": dict(phases),
            "seconds": seconds,
            "writes": writes(cluster) - before,
            "requests_per_job_and_minute": round(
                (sum(1 for _ in ours(cluster, "rest")) - looked) / jobs / seconds * 60, 2
            ),
        }
    namespace.remove(within=600)
    return result


def writes(cluster: LocalCluster) -> int:
    return sum(entry["verb"] in WRITES for entry in ours(cluster, "rest"))


PARTS = {"latency": latency, "rest": rest, "storm": storm}

if __name__ == "__main__":
    main()
