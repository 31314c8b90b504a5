"""The commands on a real API server, with a user's rights: what they say, and what they do not leave behind."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import Result

from builders import job_document
from cluster.command_line import User, call
from cluster.operators import JOBS, RAY_CLUSTERS, Operator, install_crd, phase, running_operator
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

FIRST_JOB = {"apiGroups": ["splitppo.io"], "resources": ["splitppojobs"], "verbs": ["get", "list", "create"]}


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    install_crd(cluster)
    with running_operator(cluster, tmp_path_factory.mktemp("operator") / "log", "--leader-election=false") as started:
        yield started


@pytest.fixture
def admin(namespace: Namespace) -> Any:
    def run(*arguments: str, text: str | None = None) -> Result:
        return call(namespace.cluster.kubeconfig, namespace.name, *arguments, text=text)

    return run


def document(spec: dict[str, Any] | None = None, **metadata: Any) -> str:
    return yaml.safe_dump(job_document(spec, **metadata))


def test_from_submit_to_delete(operator: Operator, namespace: Namespace, admin: Any) -> None:
    reward = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "reward"}, "data": {"r.py": "f = 1\n"}}
    function = {"training": {"reward": {"function": {"configMap": "reward", "key": "r.py", "name": "f"}}}}
    submitted = admin("submit", "-", text=yaml.safe_dump_all([job_document(function, name="train"), reward]))
    assert submitted.exit_code == 0, submitted.output
    assert (
        f"train was submitted to namespace {namespace.name}: Split, actor 2 + critic 2 of 4 GPUs." in submitted.output
    )
    assert "split-ppo status train" in submitted.output
    assert namespace.get("configmaps", "reward")["data"] == {"r.py": "f = 1\n"}
    namespace.wait(JOBS, "train", lambda j: j.get("status", {}).get("reason") == "Unschedulable", what="the wait")

    status = admin("status", "train")
    assert status.output.startswith(f"train in {namespace.name}: Provisioning")
    assert "Waiting: Unschedulable." in status.output
    listed = admin("list").output.splitlines()
    assert listed[1].split()[:2] == ["train", "Provisioning"]
    assert "finds no node" in listed[1]
    assert json.loads(admin("status", "train", "-o", "json").output)["status"]["reason"] == "Unschedulable"
    assert "was not started yet" in admin("logs", "train").output
    assert admin("dashboard", "train", "--no-browser").output.startswith("The head pod of train-1 does not run yet")

    suspended = admin("suspend", "train", "--wait")
    assert "it gives back 4 nvidia.com/gpu in 2 pods, and the head." in suspended.output
    assert "starts again at step 0" in suspended.output
    assert namespace.find(RAY_CLUSTERS) == []
    assert "is suspended already" in admin("suspend", "train").output
    assert "train goes on at step 0 when its pools are ready." in admin("resume", "train").output
    namespace.wait(JOBS, "train", lambda j: phase(j) == "Provisioning", what="the job to go on")

    deleted = admin("delete", "train", "--wait")
    assert "train is Provisioning. It gives back 4 nvidia.com/gpu in 2 pods, and the head." in deleted.output
    assert namespace.find("pods") == []
    assert admin("list").output == f"There are no SplitPPOJobs in namespace {namespace.name}.\n"


def test_waiting_for_a_job_that_fails_says_how(operator: Operator, namespace: Namespace, admin: Any) -> None:
    policy = {"startupDeadlineSeconds": 1, "backoffLimit": 0}
    waited = admin("submit", "-", "--wait", text=document({"runPolicy": policy}))
    assert waited.exit_code == 1
    assert waited.output.splitlines()[-1].startswith("job: Failed. ")
    assert "startupDeadlineSeconds" in waited.output.splitlines()[-1]
    assert admin("status", "job", "-w").exit_code == 1
    assert "there is nothing to suspend" in admin("suspend", "job").output


def test_what_is_refused_creates_nothing(operator: Operator, namespace: Namespace, admin: Any) -> None:
    good, wrong = document(name="good"), document({"placement": {"total": {"gpusPerNode": 7}}}, name="wrong")
    refused = admin("submit", "-", text=f"{good}---\n{wrong}")
    assert refused.exit_code == 1
    assert "BatchNotDivisible" in refused.output
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not-A-Name"}, "data": {}}
    refused = admin("submit", "-", text=f"{good}---\n{yaml.safe_dump(other)}")
    assert refused.exit_code == 1
    assert "Not-A-Name" in refused.output
    assert "would be accepted" in admin("submit", "-", "--dry-run", text=good).output
    assert namespace.find(JOBS) == []

    assert admin("submit", "-", text=good).exit_code == 0
    again = admin("submit", "-", text=good)
    assert (again.exit_code, "already. Delete it" in again.output) == (1, True)
    elsewhere = admin("submit", "-", text=document(name="x", namespace="elsewhere"))
    assert "names the namespace elsewhere" in elsewhere.output
    assert "Did you mean good?" in admin("status", "goood").output


def test_a_user_is_told_which_right_is_missing(operator: Operator, namespace: Namespace, tmp_path: Path) -> None:
    user = User(namespace, tmp_path, FIRST_JOB)
    assert user("submit", "-", text=document()).exit_code == 0
    assert user("list").exit_code == 0
    for command, right in (
        (("suspend", "job"), "patch splitppojobs.splitppo.io"),
        (("delete", "job"), "delete splitppojobs.splitppo.io"),
        (("dashboard", "job"), "list pods"),
        (("list", "-A"), "list splitppojobs.splitppo.io in the whole cluster"),
    ):
        if command[0] == "dashboard":
            namespace.wait(JOBS, "job", lambda j: "rayCluster" in j.get("status", {}), what="a RayCluster")
        refused = user(*command)
        assert refused.exit_code == 1
        assert f"may not {right}" in refused.output, refused.output
        assert "a Role with the verb" in refused.output
    heads = namespace.wait_all("pods", lambda p: len(p) == 1, labels="ray.io/node-type=head", what="the head pod")
    running = {"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}
    namespace.api.patch("pods", heads[0]["metadata"]["name"], running, namespace=namespace.name, subresource="status")
    namespace.wait("secrets", "job-1", lambda _: True, what="Ray's token")
    looks = {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]}
    for verbs in ([], ["get"], ["create"]):
        connects = {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": verbs}
        rules = (FIRST_JOB, looks, *([connects] if verbs else []))
        refused = User(namespace, tmp_path, *rules, name="bob")("dashboard", "job", "--no-browser")
        assert "a Role with the verbs get and create on pods/portforward." in refused.output, refused.output
    nobody = User(namespace, tmp_path, name="nobody")
    assert "may not get splitppojobs.splitppo.io" in nobody("status", "job").output
    assert "may not create splitppojobs.splitppo.io" in nobody("submit", "-", text=document(name="mine")).output


def test_it_is_a_kubectl_plugin(operator: Operator, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    namespace.apply(job_document(name="first"))
    assert namespace.cluster.kubectl("split-ppo", "list", "-n", namespace.name, "-o", "name") == "first\n"


def test_a_terminal_gets_a_live_drawing(operator: Operator, namespace: Namespace) -> None:
    namespace.apply(job_document({"runPolicy": {"backoffLimit": 0}}))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "split_ppo", "status", "job", "-w", "-n", namespace.name]
    environment = os.environ | {"KUBECONFIG": str(namespace.cluster.kubeconfig), "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    drawn, told = b"", False
    with contextlib.suppress(OSError):  # the terminal's other end closes with the process
        while chunk := os.read(ours, 65536):
            drawn += chunk
            if "░░░".encode() in drawn and not told:
                told = True
                soon = {"spec": {"runPolicy": {"startupDeadlineSeconds": 1}}}
                namespace.api.patch(JOBS, "job", soon, namespace=namespace.name)
    os.close(ours)
    assert process.wait(timeout=30) == 1
    assert "\x1b[2K" in drawn.decode(), "lines are drawn over"
    assert "Failed" in click.unstyle(drawn.decode())[-1000:]


def ended(namespace: Namespace) -> None:
    """A job that has trained, with its log on a volume."""
    namespace.claim("checkpoints", "/nowhere")
    storage = {"storage": {"checkpoints": {"claimName": "checkpoints"}}, "suspend": True}
    namespace.apply(job_document(storage, name="done"))
    namespace.wait(JOBS, "done", lambda j: phase(j) == "Suspended", what="the operator")
    attempt = {"number": 1, "cluster": "done-1", "submissionId": "x-1", "outcome": "Succeeded"}
    status = {"phase": "Succeeded", "attempts": [attempt]}
    namespace.api.patch(JOBS, "done", {"status": status}, namespace=namespace.name, subresource="status")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_pod_that_reads_logs_never_stays(operator: Operator, namespace: Namespace, number: int) -> None:
    ended(namespace)
    command = [sys.executable, "-m", "split_ppo", "logs", "done", "-n", namespace.name]
    environment = os.environ | {"KUBECONFIG": str(namespace.cluster.kubeconfig)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    [reader] = namespace.wait_all("pods", lambda pods: len(pods) == 1, within=60, what="the pod that reads")
    assert reader["metadata"]["name"].startswith("done-logs-")
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number, said
    namespace.wait_all("pods", lambda pods: not pods, within=30, what="the pod to go")


def test_reading_a_log_off_a_volume_needs_the_right_to_make_a_pod(
    operator: Operator, namespace: Namespace, tmp_path: Path
) -> None:
    ended(namespace)
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    refused = User(namespace, tmp_path, FIRST_JOB, pods)("logs", "done")
    assert refused.exit_code == 1
    assert "may not create pods" in refused.output
    assert "only a pod that mounts it can read it" in refused.output


@pytest.mark.slow
def test_watching_outlives_a_restart_of_the_api_server(
    operator: Operator, namespace: Namespace, local_cluster: LocalCluster
) -> None:
    namespace.apply(job_document({"suspend": True}))
    command = [sys.executable, "-m", "split_ppo", "status", "job", "-w", "-n", namespace.name]
    environment = os.environ | {"KUBECONFIG": str(namespace.cluster.kubeconfig), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = iter(process.stdout.readline, "")
    assert any("job: Suspended." in line for line in said)
    local_cluster.component("kube-apiserver").kill()
    assert any("can't be reached" in line and line.endswith("Trying again.\n") for line in said)
    local_cluster.component("kube-apiserver").start()
    local_cluster.wait_ready()
    assert any("job: Suspended." in line for line in said)
    namespace.api.patch(JOBS, "job", {"status": {"phase": "Succeeded"}}, namespace=namespace.name, subresource="status")
    assert process.wait(timeout=60) == 0


def test_no_cluster_is_a_sentence(namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("split_ppo.cli.api_server.JOBS", "apis/splitppo.io/v0")
    missing = call(namespace.cluster.kubeconfig, "default", "list")
    assert (missing.exit_code, "knows no SplitPPOJobs" in missing.output) == (1, True)
    config = yaml.safe_load(namespace.cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    refused = call(tmp_path / "config", "default", "list")
    assert refused.exit_code == 1
    assert "https://127.0.0.1:1, can't be reached: nothing listens there." in refused.output
    del config["current-context"]
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert "has no current context: choose one with --context" in call(tmp_path / "config", "default", "list").output
    assert "There is no kubeconfig at" in call(tmp_path / "none", "default", "list").output
