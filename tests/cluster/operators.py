"""The operator as a process beside a cluster, and jobs whose training is a small Ray program instead of a language model's."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builders import job_document
from split_ppo.api.generate import ROOT
from split_ppo.verl_config import merge
from testbed.api import ApiError, Manifest, condition
from testbed.cluster import Cluster, Namespace

JOBS = "splitppojobs.splitppo.io"
RAY_CLUSTERS = "rayclusters.ray.io"
# Stands where the trainer does: `python -m split_ppo_trainer`. It asks for a task on each pool, so it only gets by if they are
# there, and then does what a test asks for.
SMALL_TRAINER = """
import os, pathlib, sys, time
import ray

ray.init(address="auto", logging_level="ERROR")

@ray.remote(num_cpus=0)
def where():
    return ray.util.get_node_ip_address()

POOLS = ("actor", "critic")
pools = {p: ray.get(where.options(resources={f"{p}_pool": 0.001}).remote()) for p in POOLS}
attempt = int(sys.argv[sys.argv.index("--output") + 1].rsplit("/", 1)[1])
print("pools", pools, flush=True)
%s
"""
UNTIL_TOLD = 'while not pathlib.Path("/tmp/go").exists(): time.sleep(0.2)'
# One pod for all roles: a job costs two Ray nodes instead of three.
ONE_POOL: dict[str, Any] = {"placement": {"mode": "Colocated"}}


def install_crd(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", str(ROOT / "crds"))
    wait_established(cluster)


def wait_established(cluster: Cluster) -> None:
    """`kubectl wait` would fail on a CRD so new that it has no conditions at all."""
    cluster.api.wait(
        "customresourcedefinitions.apiextensions.k8s.io", JOBS, lambda crd: condition(crd, "Established") == "True"
    )


def end_with_parent() -> None:
    """In a new process: tests that are killed leave no operator behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class Operator:
    """One replica; `stop` is SIGTERM, `kill` is kill -9."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.log = log
        flags = ["--health-port=0", "--metrics-port=0", "--log-format=text", "--lease-name=split-ppo-test", *arguments]
        # The client writes the kubeconfig's keys into temporary files, which outlive an operator that is killed.
        environment = os.environ | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": "", "TMPDIR": str(log.parent)}
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "split_ppo_operator", *flags],
                env=environment,
                stdout=out,
                stderr=out,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def running(self) -> bool:
        return self.process.poll() is None


@contextmanager
def running_operator(cluster: Cluster, log: Path, *arguments: str) -> Iterator[Operator]:
    operator = Operator(cluster.kubeconfig, log, *arguments)
    try:
        yield operator
        assert operator.running, f"the operator ended by itself:\n{log.read_text()[-3000:]}"
    finally:
        if operator.running:
            operator.stop()


def small_job(
    namespace: Namespace, program: str, *, name: str = "small", spec: dict[str, Any] | None = None
) -> tuple[Manifest, Manifest]:
    """A ConfigMap with the program, and the job that runs it on one actor and one critic slot."""
    source = namespace.cluster.ray()
    mount = {
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "ray", "volumeMounts": [{"name": "program", "mountPath": "/app"}]}],
            "volumes": [
                {
                    "name": "program",
                    "configMap": {"name": name, "items": [{"key": "main", "path": "split_ppo_trainer/__main__.py"}]},
                }
            ],
        }
    }
    quick = {"spec": {"terminationGracePeriodSeconds": 2}}
    pool = {"gpusPerNode": 1, "podTemplate": quick}
    base: dict[str, Any] = {
        "image": source.image,
        "imagePullPolicy": "IfNotPresent",
        "placement": {
            "device": "CPU",
            "total": None,
            "pools": {"actor": pool, "critic": dict(pool)},
            "head": {"podTemplate": mount},
        },
        "env": [{"name": "PYTHONPATH", "value": "/app:/packages"}],
    }
    if source.packages:
        claim = namespace.claim("ray-packages", source.packages, read_only=True)
        base["storage"] = {"volumes": [{"claimName": claim, "path": "/packages"}]}
    merge(base, spec or {})
    document = job_document(base, name=name)
    del document["spec"]["placement"]["total"]
    text = SMALL_TRAINER % program
    if document["spec"]["placement"].get("mode") == "Colocated":
        del document["spec"]["placement"]["pools"]["critic"]
        text = text.replace('POOLS = ("actor", "critic")', 'POOLS = ("actor",)')
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"main": text},
    }
    return config, document


def phase(job: Manifest) -> str:
    return str(job.get("status", {}).get("phase", ""))


def condition_of(job: Manifest, kind: str) -> dict[str, Any]:
    return next((c for c in job.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def once_allowed(request: Callable[[], object]) -> None:
    """Make a request as soon as the API server lets it: a role is made after the RayCluster, and heard of a little later; of a
    new kind of owner its admission hears up to half a minute later."""
    deadline = time.monotonic() + 60
    while True:
        try:
            request()
            return
        except ApiError as error:
            if error.status != 403 or time.monotonic() > deadline:
                raise
        time.sleep(0.1)
