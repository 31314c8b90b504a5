"""The whole of it: `kubectl apply` of the quickstart on real nodes, real verl in real pods, to Succeeded."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.command_line import call
from cluster.operators import JOBS, Operator, install_crd, phase, running_operator
from split_ppo.api.generate import ROOT
from split_ppo.verl_config import merge
from testbed.api import Manifest
from testbed.cluster import Cluster, Namespace

STEPS, EVERY_STEPS = 14, 5
LONG = 30  # enough to be disturbed in the middle


@pytest.fixture(scope="module")
def environment() -> Path:
    """The trainer's packages on this machine; pods mount them read-only, 7 GB are never copied."""
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools/trainer_env.py"), "--print-path"], capture_output=True, text=True, check=True
    )
    packages = next(Path(found.stdout.strip()).glob("lib/python3.*/site-packages"), None)
    if packages is None:
        pytest.skip("the trainer's packages are not on this machine: make install-trainer")
    return packages


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project as it would be installed in the image, with its entry points."""
    folder = tmp_path_factory.mktemp("project")
    folder.chmod(0o755)  # pods are another user
    command = [
        str(Path(sys.executable).parent / "uv"),
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def operator(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    install_crd(real_cluster)
    with running_operator(real_cluster, tmp_path_factory.mktemp("operator") / "log") as started:
        yield started


def quickstart(namespace: Namespace, environment: Path, project: Path, checkpoints: Path | None) -> Manifest:
    """The example as it is, with the image's content mounted instead of pulled, and a folder of this machine for checkpoints."""
    document: Manifest = yaml.safe_load((ROOT / "examples/quickstart-cpu.yaml").read_text())
    volumes = [
        {"claimName": namespace.claim("packages", environment, read_only=True), "path": "/packages"},
        {"claimName": namespace.claim("project", project, read_only=True), "path": "/project"},
    ]
    changes = {
        "image": namespace.cluster.ray().image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "PYTHONPATH", "value": "/project:/packages"}],
        "storage": {"volumes": volumes, "everySteps": EVERY_STEPS},
        "training": {"steps": STEPS, "learningRate": {"actor": 1e-3, "critic": 1e-3}},
    }
    if checkpoints is not None:
        checkpoints.chmod(0o777)
        claim = namespace.claim("checkpoints", checkpoints)
        merge(changes, {"storage": {"checkpoints": {"claimName": claim, "path": "/checkpoints"}}})
    merge(document["spec"], changes)
    return document


def test_the_quickstart_trains_in_pods(
    operator: Operator, real_namespace: Namespace, environment: Path, project: Path, tmp_path: Path
) -> None:
    real_namespace.cluster.kubectl("label", "ns", real_namespace.name, "pod-security.kubernetes.io/enforce=restricted")
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    real_namespace.apply(quickstart(real_namespace, environment, project, checkpoints))

    seen: list[str] = []

    def done(job: Manifest) -> bool:
        progress = job.get("status", {}).get("training", {}).get("progress")
        if progress and progress not in seen:
            seen.append(progress)
        return phase(job) in ("Succeeded", "Failed")

    job = real_namespace.wait(JOBS, "quickstart", done, within=800, what="the training to end")
    assert phase(job) == "Succeeded", job["status"]
    assert len(seen) > 1, "progress is in the status while it runs"
    assert job["status"]["training"]["step"] == STEPS
    advice = job["status"]["recommendation"]
    assert {prediction["split"] for prediction in advice["predictions"]} == {"actor 1 + critic 1", "Colocated 2"}
    assert advice["message"].startswith("actor 1 + critic 1 takes ")
    (log,) = checkpoints.glob("quickstart-*/attempts/1/events.jsonl")
    events = log.read_text().splitlines()
    placed = next(json.loads(e) for e in events if json.loads(e)["event"] == "placement")
    pools = {w["role"]: w["pool"] for w in placed["workers"]}
    assert set(pools.values()) >= {"actor", "critic"}
    rewards = [json.loads(e)["reward"] for e in events if json.loads(e)["event"] == "step"]
    assert rewards[-1] > rewards[0] + 0.1, rewards
    real_namespace.wait_all(
        "pods", lambda pods: not pods, labels="splitppo.io/job=quickstart", within=120, what="pods to go"
    )
    said = call(real_namespace.cluster.kubeconfig, real_namespace.name, "logs", "quickstart")
    assert said.exit_code == 0, said.output
    assert {"driver", "actor", "critic"} <= {line.split(maxsplit=1)[0] for line in said.output.splitlines()}


@pytest.mark.slow
def test_a_lost_critic_pod_costs_the_steps_since_the_checkpoint(
    operator: Operator, real_namespace: Namespace, environment: Path, project: Path, tmp_path: Path
) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    job = quickstart(real_namespace, environment, project, checkpoints)
    job["spec"]["training"]["steps"] = LONG
    real_namespace.apply(job)

    def past_a_checkpoint(job: Manifest) -> bool:
        assert phase(job) != "Failed", job["status"]
        return int(job.get("status", {}).get("training", {}).get("step") or 0) > EVERY_STEPS

    real_namespace.wait(JOBS, "quickstart", past_a_checkpoint, within=420, what="a step after the first checkpoint")
    [critic] = real_namespace.find("pods", labels="ray.io/group=critic")
    at_once = {"gracePeriodSeconds": 0}  # within a pod's grace period the training would be done
    real_namespace.api.delete("pods", critic["metadata"]["name"], namespace=real_namespace.name, options=at_once)
    job = real_namespace.wait(
        JOBS,
        "quickstart",
        lambda j: phase(j) in ("Succeeded", "Failed"),
        within=600,
        what="the training to end",
    )
    assert phase(job) == "Succeeded", job["status"]
    attempts = job["status"]["attempts"]
    assert [a["outcome"] for a in attempts] == ["Failed", "Succeeded"]
    first, second = (steps_of(checkpoints, a["number"]) for a in attempts)
    assert first == list(range(1, len(first) + 1))
    assert second[0] > 1, "the second attempt starts where the checkpoint was"
    assert (second[0] - 1) % EVERY_STEPS == 0
    assert second[0] - 1 <= first[-1]
    assert second == list(range(second[0], LONG + 1))


@pytest.mark.slow
def test_a_run_moves_to_the_better_split(
    operator: Operator, real_namespace: Namespace, environment: Path, project: Path, tmp_path: Path
) -> None:
    """`balance.mode: Apply`. The critic has next to nothing to do, the actor much besides generation: one pool must be better."""
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    job = quickstart(real_namespace, environment, project, checkpoints)
    del job["spec"]["placement"]["pools"]
    changes = {
        "placement": {"total": {"gpusPerNode": 2}},
        "balance": {"mode": "Apply", "minGainPercent": 2},
        "training": {
            "model": {"actor": "toy://digits-16m/model", "critic": "toy://digits/model"},
            "batchSize": 16,
            "miniBatchSize": 16,
            "microBatchSizePerGPU": 8,
            "config": {"actor_rollout_ref": {"actor": {"ppo_epochs": 3}}},
        },
        "storage": {"everySteps": 7},
    }
    real_namespace.apply(merge(job, {"spec": changes}))

    def done(job: Manifest) -> bool:
        return phase(job) in ("Succeeded", "Failed")

    job = real_namespace.wait(JOBS, "quickstart", done, within=1200, what="the training to end")
    status = job["status"]
    assert phase(job) == "Succeeded", status
    first, second, *back = status["attempts"]
    assert (first["outcome"], first["split"]) == ("Moved", "actor 1 + critic 1")
    assert "moving to it" in first["message"]
    assert second["split"] == "Colocated 2"
    # On a busy machine one pool may turn out slower after all; then it goes back, once and for good.
    assert [attempt["split"] for attempt in back] in ([], ["actor 1 + critic 1"])
    assert status["balance"]["settled"] == bool(back)
    assert status["balance"]["asked"] == "actor 1 + critic 1"
    assert status["failures"] == 0
    steps = [step for attempt in status["attempts"] for step in steps_of(checkpoints, attempt["number"])]
    assert steps == list(range(1, STEPS + 1)), "none lost, none done twice"


def steps_of(checkpoints: Path, attempt: int) -> list[int]:
    (log,) = checkpoints.glob(f"quickstart-*/attempts/{attempt}/events.jsonl")
    lines = log.read_text().splitlines()
    return [int(event["step"]) for event in map(json.loads, lines) if event["event"] == "step"]


@pytest.mark.slow
def test_the_quickstart_needs_no_storage(
    operator: Operator, real_namespace: Namespace, environment: Path, project: Path
) -> None:
    """Each pod makes the toy on its own disk."""
    real_namespace.apply(quickstart(real_namespace, environment, project, checkpoints=None))
    job = real_namespace.wait(
        JOBS, "quickstart", lambda job: phase(job) in ("Succeeded", "Failed"), within=600, what="the training to end"
    )
    assert phase(job) == "Succeeded", job["status"]
    assert job["status"]["training"]["step"] == STEPS
