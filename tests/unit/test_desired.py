"""What would be created: golden manifests for every example, and the rules that KubeRay does not check."""

import os
from pathlib import Path
from typing import Any

import pytest

from builders import make_job, pools
from split_ppo.api.generate import ROOT
from split_ppo.cli.yaml_text import yaml_text
from split_ppo.jobfile import load_jobs
from split_ppo.placement.checks import check_job
from split_ppo.runplan import RunPlan
from split_ppo_operator.desired import desired_objects

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
GOLDEN = Path(__file__).parent / "golden"


def objects(spec: dict[str, Any] | None = None, *, attempt: int = 1, **metadata: Any) -> dict[str, dict[str, Any]]:
    job = make_job(spec, **metadata)
    plan = check_job(job)
    assert plan.findings == ()
    return {o["kind"]: o for o in desired_objects(job, plan, attempt=attempt)}


def groups(spec: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    return {g["groupName"]: g for g in objects(spec)["RayCluster"]["spec"]["workerGroupSpecs"]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_manifests_are_as_they_were(example: Path) -> None:
    """`UPDATE_GOLDEN=1 make test-unit` writes them anew; read the difference before committing it."""
    jobs = [item.job for item in load_jobs(example.read_text(), str(example)).jobs]
    text = yaml_text(*(o for job in jobs for o in desired_objects(job, check_job(job), attempt=1)))
    golden = GOLDEN / example.name
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert golden.read_text() == text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_kuberay_could_tell_every_pool_apart(example: Path) -> None:
    for item in load_jobs(example.read_text(), str(example)).jobs:
        cluster = desired_objects(item.job, check_job(item.job), attempt=9999)[-1]
        for group in cluster["spec"]["workerGroupSpecs"]:
            name = group["groupName"]
            assert name not in ("head", "headgroup")
            assert len(cluster["metadata"]["name"]) + len(name) <= 49
            [pool] = [r for r in group["resources"] if r not in ("CPU", "GPU")]
            assert not pool.lower().endswith("gpu")
            assert all(value.isdigit() for value in group["resources"].values())
            assert group["replicas"] == group["minReplicas"] == group["maxReplicas"]


def test_gpus_and_cpus_are_limits_because_kuberay_tells_ray_those() -> None:
    group = groups({"placement": {"total": {"gpusPerNode": 4, "cpusPerGPU": 6, "memory": "10Gi"}}})["actor"]
    resources = group["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "13", "memory": "10Gi", "nvidia.com/gpu": "2"}
    assert resources["requests"] == resources["limits"]


def test_cpu_slots_are_told_to_ray_by_name() -> None:
    group = groups({"placement": {"device": "CPU", "total": {"gpusPerNode": 3}}})["actor"]
    assert group["resources"] == {"actor_pool": "2", "GPU": "2", "CPU": "9"}
    container = group["template"]["spec"]["containers"][0]
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_the_head_has_no_gpu_and_names_its_dashboard() -> None:
    head = objects()["RayCluster"]["spec"]["headGroupSpec"]
    container = head["template"]["spec"]["containers"][0]
    assert "gpu" not in str(container["resources"])
    assert {"name": "dashboard", "containerPort": 8265} in container["ports"]


def test_only_the_head_has_a_token() -> None:
    made = objects()
    assert made["RayCluster"]["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] == "job-trainer"
    for group in groups().values():
        assert group["template"]["spec"]["automountServiceAccountToken"] is False
    assert made["Role"]["rules"] == [
        {
            "apiGroups": ["splitppo.io"],
            "resources": ["splitppojobs/status"],
            "resourceNames": ["job"],
            "verbs": ["patch"],
        }
    ]


def test_everything_is_restricted() -> None:
    cluster = objects({"storage": {"checkpoints": {"claimName": "c"}}})["RayCluster"]["spec"]
    templates = [cluster["headGroupSpec"]["template"], *(g["template"] for g in cluster["workerGroupSpecs"])]
    for template in templates:
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }


def test_everything_belongs_to_the_job() -> None:
    for made in objects(uid="u-1", namespace="team").values():
        assert made["metadata"]["namespace"] == "team"
        [owner] = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("SplitPPOJob", "u-1", True)


def test_names_are_functions_of_job_and_attempt() -> None:
    first, second = objects(attempt=1), objects(attempt=2)
    assert first["RayCluster"]["metadata"]["name"] == "job-1"
    assert second["RayCluster"]["metadata"]["name"] == "job-2"
    assert objects(attempt=2) == second


def test_the_plan_file_is_what_the_trainer_reads() -> None:
    spec = {
        "storage": {"checkpoints": {"claimName": "c", "path": "/ckpt/"}},
        "training": {"reward": {"function": {"configMap": "scores", "key": "score.py"}}},
    }
    made = objects(spec, attempt=3)
    head = made["RayCluster"]["spec"]["headGroupSpec"]["template"]
    run = RunPlan.model_validate_json(head["metadata"]["annotations"]["splitppo.io/plan"])
    [shown] = [v["downwardAPI"]["items"] for v in head["spec"]["volumes"] if v["name"] == "plan"]
    assert shown == [{"path": "plan.json", "fieldRef": {"fieldPath": "metadata.annotations['splitppo.io/plan']"}}]
    assert run.job.attempt == 3
    assert run.storage.path == "/ckpt/job"
    assert run.verl["reward"]["custom_reward_function"]["path"] == "/etc/split-ppo/reward/score.py"
    mounts = {m["mountPath"] for m in groups(spec)["actor"]["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {"/ckpt/", "/etc/split-ppo/reward"}


@pytest.mark.parametrize(
    ("layout", "together", "apart", "kind"),
    [
        ("WithinNodes", ["actor"], ["critic"], "required"),
        ("AcrossNodes", None, ["critic", "actor"], "required"),
        ("Auto", None, ["critic", "actor"], "preferred"),
    ],
)
def test_the_layout_reaches_the_scheduler(layout: str, together: list[str] | None, apart: list[str], kind: str) -> None:
    found = groups(pools(4, 2, nodes=2, layout=layout))["critic"]["template"]["spec"]["affinity"]

    def pools_of(side: str) -> list[str]:
        [(key, terms)] = found[side].items()
        assert key.startswith(kind)
        inner = [t.get("podAffinityTerm", t) for t in terms]
        for term in inner:
            assert term["labelSelector"]["matchLabels"] == {"splitppo.io/job": "job", "splitppo.io/attempt": "1"}
        return [v for t in inner for e in t["labelSelector"]["matchExpressions"] for v in e["values"]]

    assert pools_of("podAntiAffinity") == apart
    assert (pools_of("podAffinity") if "podAffinity" in found else None) == together


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({"queueName": "q"}, {"kueue.x-k8s.io/queue-name": "q"}),
        ({"gangScheduler": "Volcano", "queueName": "q"}, {"volcano.sh/queue-name": "q"}),
        ({"gangScheduler": "KAI", "queueName": "q"}, {"kai.scheduler/queue": "q"}),
        ({"gangScheduler": "SchedulerPlugins"}, {"ray.io/gang-scheduling-enabled": "true"}),
        (
            {"gangScheduler": "YuniKorn", "queueName": "q"},
            {
                "yunikorn.apache.org/app-id": "job",
                "ray.io/gang-scheduling-enabled": "true",
                "yunikorn.apache.org/queue": "q",
            },
        ),
        ({}, {}),
    ],
)
def test_queues_know_the_cluster_by_its_labels(scheduling: dict[str, str], expected: dict[str, str]) -> None:
    found = objects({"scheduling": scheduling})["RayCluster"]["metadata"]["labels"]
    assert {k: v for k, v in found.items() if "splitppo.io" not in k and "managed-by" not in k} == expected


def test_secrets_stay_references() -> None:
    spec = {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]}
    [variable] = [
        e for e in groups(spec)["actor"]["template"]["spec"]["containers"][0]["env"] if e["name"] == "HF_TOKEN"
    ]
    assert variable["valueFrom"]["secretKeyRef"]["name"] == "hf"
    assert "value" not in variable
