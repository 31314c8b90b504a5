"""Logs and dashboard of a job whose pods really run, by a user with the role `edit`; and who is kept out of Ray.

One job for all of it: the tests follow it from running to its end, and to what is left afterwards.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from cluster.command_line import ALL_OF_JOBS, User
from cluster.operators import JOBS, install_crd, phase, running_operator, small_job
from cluster.test_nodes import pod, run
from testbed.api import Manifest
from testbed.cluster import Cluster, Namespace

# Says something on each pool, keeps a log where the trainer would, and waits to be told.
PROGRAM = """
@ray.remote(num_cpus=0)
def speak(pool):
    print("a word from", pool, flush=True)

ray.get([speak.options(resources={f"{p}_pool": 0.001}).remote(p) for p in pools])
log = pathlib.Path(sys.argv[sys.argv.index("--log") + 1])
log.parent.mkdir(parents=True)
import json
where = [{"role": p, "pool": p, "node_ip": ip} for p, ip in pools.items()]
event = json.dumps({"event": "placement", "workers": where, "helpers": []}, separators=(",", ":"))
(log.parent / "events.jsonl").write_text(event + "\\n")
log.write_text("kept of the driver\\n(speak pid=1, ip=%s) kept of the critic\\n" % pools["critic"])
while not pathlib.Path("/tmp/go").exists(): time.sleep(0.2)
print("the end", flush=True)
"""
# Tries to run code through Ray's Jobs API, without a token and with a guessed one.
INTRUDER = """
import sys, urllib.error, urllib.request
body = b'{"entrypoint": "touch /tmp/intruded"}'
for token in ({}, {"Authorization": "Bearer guess"}):
    request = urllib.request.Request(sys.argv[1], body, {"Content-Type": "application/json", **token})
    try:
        print(urllib.request.urlopen(request, timeout=20).status)
    except urllib.error.HTTPError as refused:
        print(refused.code)
"""
# The same past the Jobs API, at the service by which Ray's own processes find each other.
DRIVER = """
import sys
from ray._raylet import GcsClient
try:
    print("let in:", len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=20)), "nodes")
except Exception as refused:
    print(refused)
"""


@pytest.fixture(scope="module")
def job(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """The namespace in which the job `small` runs, until told to end."""
    install_crd(real_cluster)
    folder = tmp_path_factory.mktemp("cli")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints").chmod(0o777)
    namespace = real_cluster.make_namespace("cli-pods", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    try:
        with running_operator(real_cluster, folder / "log", "--lease-name=split-ppo-cli"):
            claim = namespace.claim("checkpoints", folder / "checkpoints")
            storage = {"storage": {"checkpoints": {"claimName": claim, "path": "/checkpoints"}}}
            namespace.apply(*small_job(namespace, PROGRAM, spec=storage))
            namespace.wait(JOBS, "small", lambda j: phase(j) == "Running", within=240, what="the job to run")
            yield namespace
    finally:
        namespace.remove()


@pytest.fixture(scope="module")
def user(job: Namespace, tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(job, tmp_path_factory.mktemp("user"), ALL_OF_JOBS, role="edit")


def head(namespace: Namespace) -> Manifest:
    [found] = namespace.find("pods", labels="ray.io/node-type=head")
    return found


def start(user: User, *arguments: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "split_ppo",
        *arguments,
        "--kubeconfig",
        str(user.kubeconfig),
        "-n",
        user.namespace,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ask(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, text, answer.getheader("Set-Cookie", "")


def test_the_dashboard_is_logged_in_for_its_user_alone(user: User) -> None:
    process = start(user, "dashboard", "small", "--port", "0", "--no-browser")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/login/\S+)", line)
        assert found, line + (process.stdout.read() if process.poll() is not None else "")
        port = int(found[1])
        assert ask(port, "/api/jobs/")[0] == 401
        status, _, cookie = ask(port, found[2])
        assert status == 303
        status, text, _ = ask(port, "/api/jobs/", Cookie=cookie.split(";")[0])
        assert status == 200
        assert [j["status"] for j in json.loads(text)] == ["RUNNING"]
        assert "<title>" in ask(port, "/")[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        with pytest.raises(ConnectionRefusedError):
            ask(port, "/")
    finally:
        if process.poll() is None:
            process.kill()


def test_without_the_token_nobody_submits(job: Namespace, real_cluster: Cluster) -> None:
    """Neither from the job's own namespace nor from another one."""
    outside = real_cluster.make_namespace("cli-intruder")
    address = f"http://small-1-head-svc.{job.name}:8265/api/jobs/"
    strict: dict[str, Any] = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    }
    try:
        for namespace in (outside, job):
            intruder = pod(namespace, "intruder", script="import time; time.sleep(600)", **strict)
            drop = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            intruder["spec"]["containers"][0]["securityContext"] = drop
            run(namespace, intruder)
            said = namespace.exec("intruder", "python3", "-c", INTRUDER, address)
            assert said.split() == ["401", "403"]
    finally:
        outside.remove()
    ray = head(job)["metadata"]["name"]
    assert "intruded" not in job.exec(ray, "ls", "/tmp")
    service = f"small-1-head-svc.{job.name}:6379"
    assert job.exec(ray, "python3", "-c", DRIVER, service).startswith("let in: 3 nodes")
    for wrong in (["RAY_AUTH_MODE=disabled"], ["RAY_AUTH_TOKEN=guess"]):
        assert "InvalidAuthToken" in job.exec(ray, "env", *wrong, "python3", "-c", DRIVER, service)


def test_logs_by_pool_while_it_runs_and_after_its_end(job: Namespace, user: User) -> None:
    following = start(user, "logs", "small", "-f")
    assert following.stdout is not None
    assert any("a word from critic" in line for line in iter(following.stdout.readline, ""))

    said = user("logs", "small")
    assert said.exit_code == 0, said.output
    for pool in ("actor", "critic"):
        assert re.search(rf"^{pool} +\(speak pid=\d+\) a word from {pool}$", said.output, re.MULTILINE), said.output
    assert re.search(r"^driver +pools ", said.output, re.MULTILINE)
    assert "a word from actor" not in user("logs", "small", "--pool", "critic").output

    job.exec(head(job)["metadata"]["name"], "touch", "/tmp/go")
    rest, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert "small: Succeeded." in rest

    job.wait_all("pods", lambda pods: not pods, labels="splitppo.io/job=small", within=120, what="pods to go")
    kept = user("logs", "small")
    assert kept.exit_code == 0, kept.output
    assert [line.split(maxsplit=1) for line in kept.output.splitlines()] == [
        ["driver", "kept of the driver"],
        ["critic", "(speak pid=1) kept of the critic"],
    ]
    readers = job.find("pods", labels="app.kubernetes.io/component=log-reader")
    assert [p for p in readers if not p["metadata"].get("deletionTimestamp")] == []
    assert "has no attempt 2" in user("logs", "small", "--attempt", "2").output
    assert "keeps the head" in user("dashboard", "small").output
