"""What the commands say of a cluster, without one: refusals, drawings, what is held, whose line it is, the log reader."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from builders import job_document, pools
from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.holdings import after_deletion, after_suspension, held
from split_ppo.cli.job_drawing import draw_job, draw_table, duration, phase_line
from split_ppo.cli.jobs import JobOnCluster
from split_ppo.cli.log_lines import attributed, placement_pools
from split_ppo.cli.main import cli
from split_ppo.cli.reader_pod import reader_pod
from split_ppo.cli.refusals import Answer, ClusterError, explain, unknown, unreachable
from split_ppo_operator.desired.reach import reaches

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
STORED = {"storage": {"checkpoints": {"claimName": "ckpt", "path": "/ckpt"}}}


def on_cluster(
    status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, *, age: float = 60, **metadata: Any
) -> JobOnCluster:
    made = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = {"namespace": "ml", "uid": "0a1b2c3d-1", "generation": 1, "creationTimestamp": made}
    document = job_document(spec, **known | metadata)
    return JobOnCluster.read({**document, **({"status": {"observedGeneration": 1, **status}} if status else {})})


def refusal(status: int, message: str = "", **details: Any) -> str:
    body = {"kind": "Status", "message": message, **({"details": details} if details else {})}
    return str(explain(Answer(status, json.dumps(body)), path="/api/v1/pods", context="prod"))


def test_forbidden_says_who_may_not_do_what() -> None:
    said = refusal(
        403,
        'secrets "train-1" is forbidden: User "system:serviceaccount:ml:ann" cannot get resource "secrets" in API group "" '
        'in the namespace "ml"',
        name="train-1",
    )
    assert said.startswith("You are system:serviceaccount:ml:ann and may not get secrets in namespace ml.")
    assert said.endswith("a Role with the verb get on secrets.")


def test_other_refusals_say_what_to_do() -> None:
    assert "log in again" in refusal(401)
    assert "(context prod)" in refusal(401)
    missing = Answer(404, "404 page not found\n")
    assert "knows no SplitPPOJobs" in str(explain(missing, path="/apis/splitppo.io/v1alpha1/splitppojobs"))
    assert str(explain(missing, path="/apis/x.io/v1")) == "The API server knows nothing of /apis/x.io/v1."
    assert refusal(404, "", name="nope", kind="namespaces") == "There is no namespace nope."
    assert refusal(404, "", name="x", kind="pods") == "There is no pods x."
    assert refusal(500, "etcd is tired") == "The API server answers 500: etcd is tired."


def test_every_complaint_about_an_object_is_listed() -> None:
    causes = [
        {"field": "spec.placement", "message": 'Invalid value: "object": give either pools or total: one of them'},
        {"field": "spec.overlap", "message": 'Unsupported value: "x"'},
    ]
    said = refusal(422, "all in one line", name="x", causes=causes)
    assert said.splitlines() == [
        "The API server does not accept it, for 2 reasons:",
        "  spec.placement: give either pools or total: one of them",
        '  spec.overlap: Unsupported value: "x".',
    ]


def test_no_cluster_is_a_sentence() -> None:
    error = "HTTPSConnection(host='h', port=1): Failed to establish a new connection: [Errno 111] Connection refused"
    said = str(unreachable("https://h:1", error, context="prod"))
    assert said == "The API server of the context prod, https://h:1, can't be reached: nothing listens there."


CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}},
        {"name": "there", "context": {"cluster": "c", "user": "u"}},
    ],
    "current-context": "here",
}


def test_a_wrong_file_is_refused_before_a_cluster_is_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_document({"training": {"batchSize": 1025}})))
    found = CliRunner().invoke(cli, ["submit", str(file), "--kubeconfig", str(tmp_path / "none")])
    assert found.exit_code == 1
    assert f"MiniBatchNotDivisor  {file}" in found.output
    assert "kubeconfig" not in found.output


def test_a_context_brings_its_namespace(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(CONFIG))

    def connect(**options: str) -> tuple[str, str]:
        given: dict[str, str | None] = {"context": None, "namespace": None, "kubeconfig": str(file), **options}
        server = ApiServer.connect(**given)
        return server.context, server.namespace

    assert connect() == ("here", "mine")
    assert connect(context="there") == ("there", "default")
    assert connect(context="there", namespace="x") == ("there", "x")
    with pytest.raises(ClusterError, match=r"no context her in the kubeconfig. Did you mean here\?"):
        connect(context="her")
    file.write_text(yaml.safe_dump({k: v for k, v in CONFIG.items() if k != "current-context"}))
    assert connect(context="here") == ("here", "mine")
    with pytest.raises(ClusterError, match="has no current context"):
        connect()
    for text in ("{", "[1]", "contexts: 3"):
        file.write_text(text)
        with pytest.raises(ClusterError, match="can't be used"):
            connect()


def test_help_of_no_command_waits_for_the_kubernetes_client() -> None:
    code = (
        "import sys\nfrom importlib import import_module\nfrom split_ppo.cli.main import COMMANDS\n"
        "for module, _ in COMMANDS.values(): import_module(module)\n"
        "sys.exit('kubernetes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_did_you_mean() -> None:
    assert unknown("job", "trian", ["train", "x"], where=" here") == "There is no job trian here. Did you mean train?"
    assert unknown("job", "z", ["a", "b"], where="").endswith("There are a, b.")
    assert unknown("job", "z", [], where="") == "There is no job z."


def test_a_waiting_job_says_why_and_what_would_help() -> None:
    waiting = {
        "phase": "Provisioning",
        "reason": "Unschedulable",
        "message": "actor 1/2. No node has 6 GPUs.",
        "pools": [
            {"name": "actor", "gpus": 12, "desired": 2, "ready": 1, "reason": "Unschedulable", "message": "No node."},
            {"name": "critic", "gpus": 4, "desired": 2, "ready": 2},
        ],
    }
    drawn = click.unstyle(draw_job(on_cluster(waiting), NOW))
    assert drawn.startswith("job in ml: Provisioning, made 60s ago\n  Waiting: Unschedulable. actor 1/2. No node has")
    assert "Free GPUs" in drawn
    assert "actor   ████████████░░░░░░░░░░░░  1/2 pods, 12 GPUs" in drawn
    assert "Unschedulable: No node." in drawn
    assert "critic  ████████████████████████  2/2 pods, 4 GPUs" in drawn


def test_a_running_job_shows_how_far_it_is() -> None:
    running = {
        "phase": "Running",
        "reason": "Training",
        "message": "The training runs.",
        "attempt": 2,
        "attempts": [
            {"number": 1, "outcome": "Failed", "reason": "NodeLost", "message": "Node n is gone."},
            {"number": 2, "outcome": "Running"},
        ],
        "training": {
            "step": 50,
            "totalSteps": 100,
            "progress": "50/100",
            "reward": 0.51234,
            "eta": "2026-11-16T13:30:00Z",
            "overlapEfficiency": 0.914,
            "phaseSeconds": {"gen": 12.25, "update_actor": 30.0},
            "checkpoint": "/ckpt/job/global_step_40",
        },
    }
    drawn = click.unstyle(draw_job(on_cluster(running, STORED), NOW))
    assert "████████████░░░░░░░░░░░░  step 50/100, reward 0.5123, overlap 91%, 90m to go" in drawn
    assert "update_actor 30s  gen 12.2s" in drawn
    assert "checkpoint /ckpt/job/global_step_40" in drawn
    assert "attempt 1  Failed: NodeLost. Node n is gone." in drawn
    assert "Waiting" not in drawn
    assert phase_line(on_cluster(running), NOW) == "job: Running, step 50/100. The training runs."


def test_a_job_that_no_operator_looks_at_says_so_after_a_moment() -> None:
    assert "No operator has looked" not in draw_job(on_cluster(age=3), NOW)
    assert "No operator has looked" in draw_job(on_cluster(age=30), NOW)
    assert "No operator has looked" in draw_table([on_cluster(age=30)], NOW, namespaces=False, width=None)


def test_the_table_fits_the_terminal_and_is_whole_in_a_pipe() -> None:
    job = on_cluster({"phase": "Pending", "reason": "Queued", "message": "word " * 50, "poolSummary": "actor 0/1"})
    narrow = click.unstyle(draw_table([job], NOW, namespaces=True, width=100)).splitlines()
    assert [len(line) <= 100 for line in narrow] == [True, True]
    assert narrow[1].endswith("…")
    assert narrow[0].split() == ["NAMESPACE", "NAME", "PHASE", "POOLS", "STEP", "REWARD", "AGE", "REASON", "MESSAGE"]
    assert ("word " * 50).strip() in draw_table([job], NOW, namespaces=False, width=None)


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3, "0s"), (119, "119s"), (600, "10m"), (12_000, "3h20m"), (400_000, "4d")]
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_is_held_is_counted_by_resource() -> None:
    spec = pools(6, 2, nodes=2)
    spec["placement"]["pools"]["critic"]["gpuResource"] = "amd.com/gpu"
    assert held(on_cluster({"phase": "Running"}, spec)) == "12 nvidia.com/gpu and 4 amd.com/gpu in 4 pods, and the head"
    assert held(on_cluster({"phase": "Running"}, {"placement": {"device": "CPU"}})) == "2 pods and the head"
    for phase in ("Pending", "Suspended", "Succeeded"):
        assert held(on_cluster({"phase": phase}, spec)) is None
    kept = {"runPolicy": {"cleanup": "Workers"}}
    assert held(on_cluster({"phase": "Failed"}, kept)) == "the head pod, kept by cleanup: Workers"


def test_what_suspension_and_deletion_leave() -> None:
    going = {"phase": "Running", "training": {"step": 7, "checkpoint": "/ckpt/job/global_step_5"}}
    assert after_suspension(on_cluster(going, STORED)) == "Resumed, it goes on from /ckpt/job/global_step_5."
    assert "step 0, and 7 steps are lost." in after_suspension(on_cluster(going))
    assert "no checkpoint yet" in after_suspension(on_cluster({"phase": "Running"}, STORED))
    assert after_deletion(on_cluster(going, STORED)).endswith("stay on the claim ckpt, in /ckpt/job-0a1b2c3d.")
    assert "go with it" in after_deletion(on_cluster(going))


def test_each_line_gets_its_pool() -> None:
    lines = [
        "a word of the driver",
        "\x1b[36m(TaskRunner pid=7)\x1b[0m on the head",
        "\x1b[36m(WorkerDict pid=8, ip=10.0.0.2)\x1b[0m in a pool",
        "(vLLMHttpServer pid=9, ip=10.0.0.3) (EngineCore pid=4) nested",
        "(raylet, ip=10.0.0.9) somewhere else",
        "(not a mark) of Ray's",
        "(WorkerDict pid=8, ip=10.0.0.2) 0%|  |\r100%|##|\r",
        "\x1b]0;a title\x07\x1b[2Jand\x9b a\x1b[1A bell\x07",
    ]
    assert list(attributed(lines, {"10.0.0.2": "actor", "10.0.0.3": "critic"})) == [
        ("driver", "a word of the driver"),
        ("driver", "(TaskRunner pid=7) on the head"),
        ("actor", "(WorkerDict pid=8) in a pool"),
        ("critic", "(vLLMHttpServer pid=9) (EngineCore pid=4) nested"),
        ("worker", "(raylet) somewhere else"),
        ("driver", "(not a mark) of Ray's"),
        ("actor", "(WorkerDict pid=8) 100%|##|"),
        ("driver", "and a bell"),
    ]


def test_pools_from_the_trainers_own_event() -> None:
    event = {
        "event": "placement",
        "workers": [{"role": "Critic", "pool": "critic", "node_ip": "10.0.0.3"}],
        "helpers": [{"role": "Queue", "pool": None, "node_ip": "10.0.0.1"}],
    }
    assert placement_pools(json.dumps(event)) == {"10.0.0.3": "critic"}
    assert placement_pools("") == {}
    assert placement_pools("[1]") == {}


def test_the_reader_is_the_head_without_ray_rights_and_writes() -> None:
    spec = STORED | {
        "imagePullSecrets": [{"name": "pull"}],
        "scheduling": {"priorityClassName": "high"},
        "placement": {"head": {"nodeSelector": {"zone": "a"}}},
        "training": {"reward": {"function": {"configMap": "r", "key": "r.py", "name": "f"}}},
    }
    pod = reader_pod(on_cluster(spec=spec).job, attempt=3, suffix="x")
    made = pod["spec"]
    assert [v["name"] for v in made["volumes"]] == ["checkpoints"]
    [container] = made["containers"]
    assert container["volumeMounts"] == [{"name": "checkpoints", "mountPath": "/ckpt", "readOnly": True}]
    assert "cd /ckpt/job-0a1b2c3d/attempts/3 " in container["command"][-1]
    assert made["nodeSelector"] == {"zone": "a"}
    assert made["imagePullSecrets"] == [{"name": "pull"}]
    assert not {"serviceAccountName", "priorityClassName"} & set(made)
    assert (made["restartPolicy"], made["activeDeadlineSeconds"]) == ("Never", 600)
    assert list(reaches(made, account=None)) == []
    assert not any(key.startswith("splitppo.io") for key in pod["metadata"]["labels"])
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "0a1b2c3d-1"
