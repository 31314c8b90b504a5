"""Every check: the spec that trips it, its reason, and the words its sentence must have."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import job_document, make_job, pools
from split_ppo.placement.capacity import fits
from split_ppo.placement.checks import CHECKS, CLUSTER_CHECKS, check_job

SEVEN = {"placement": {"total": {"gpusPerNode": 7}}}


def config(**settings: Any) -> dict[str, Any]:
    return {"training": {"config": settings}}


CASES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    (
        "too large for a pod",
        config(data={"apply_chat_template_kwargs": {"text": "x" * 200_000}}),
        "SettingsTooLarge",
        ["bytes as JSON", "200,000 of them"],
    ),
    (
        "batch over critic",
        SEVEN,
        "BatchNotDivisible",
        ["batchSize is 1024", "3 ranks", "batchSize 1152", "miniBatchSize 288"],
    ),
    ("mini over critic", SEVEN, "MiniBatchNotDivisible", ["miniBatchSize is 256", "pool critic", "3 ranks"]),
    (
        "mini no divisor",
        {"training": {"batchSize": 100, "miniBatchSize": 64}},
        "MiniBatchNotDivisor",
        ["64", "100", "What fits every pool: batchSize 128, miniBatchSize 64"],
    ),
    (
        "mini larger than batch",
        {"training": {"batchSize": 64, "miniBatchSize": 128}},
        "MiniBatchNotDivisor",
        ["batchSize 64, miniBatchSize 64"],
    ),
    (
        "micro",
        {"training": {"batchSize": 64, "miniBatchSize": 32, "microBatchSizePerGPU": 12}},
        "MicroBatchNotDivisor",
        ["12", "16 sequences", "What fits"],
    ),
    (
        "micro larger than a rank's share",
        {"training": {"batchSize": 8, "miniBatchSize": 8, "microBatchSizePerGPU": 8}},
        "MicroBatchNotDivisor",
        ["has 4 sequences"],
    ),
    (
        "batch from config",
        {**SEVEN, **config(data={"train_batch_size": 100})},
        "BatchNotDivisible",
        ["training.config.data.train_batch_size is 100"],
    ),
    (
        "apply to pools",
        {**pools(1, 1), "balance": {"mode": "Apply"}},
        "BalanceApply",
        ["give placement.total", "or use Recommend"],
    ),
    (
        "apply without checkpoints",
        {"balance": {"mode": "Apply"}},
        "BalanceApply",
        ["storage.checkpoints is not set"],
    ),
    ("config not a number", config(data={"train_batch_size": "many"}), "NotANumber", ["'many'", "whole number"]),
    (
        "tensor parallel",
        {"training": {"rollout": {"tensorParallelSize": 4}}},
        "TensorParallelSize",
        ["is 4", "2 GPU(s) a node", "1 or 2"],
    ),
    (
        "reward tensor parallel",
        {**pools(2, 2, reward=1), "training": {"reward": {"model": {"path": "rm", "tensorParallelSize": 2}}}},
        "TensorParallelSize",
        ["training.reward.model.tensorParallelSize", "pool reward has 1"],
    ),
    ("grpo", config(algorithm={"adv_estimator": "grpo"}), "NoCritic", ["grpo", "Colocated", "tool"]),
    ("critic off", config(critic={"enable": False}), "NoCritic", ["critic.enable is false"]),
    ("idle reward pool", pools(2, 2, reward=1), "IdlePool", ["reward", "training.reward.model"]),
    ("idle critic pool", pools(2, 2, roles={"critic": "actor"}), "IdlePool", ["Pool critic", "2 GPU(s)"]),
    ("cpus", {"placement": {"total": {"cpusPerGPU": 2}}}, "TooFewCPUs", ["is 2", "use 3"]),
    (
        "resource ends in gpu",
        {
            "placement": {
                "total": None,
                "pools": {"actor": {"gpusPerNode": 1, "resource": "actorGPU"}, "critic": {"gpusPerNode": 1}},
            }
        },
        "ResourceName",
        ["actorGPU", "ends in gpu", "actor_pool"],
    ),
    (
        "resource of Ray",
        {
            "placement": {
                "total": None,
                "pools": {"actor": {"gpusPerNode": 1, "resource": "memory"}, "critic": {"gpusPerNode": 1}},
            }
        },
        "ResourceName",
        ["Ray's own"],
    ),
    (
        "shared resource",
        {
            "placement": {
                "total": None,
                "pools": {"actor": {"gpusPerNode": 1, "resource": "p"}, "critic": {"gpusPerNode": 1, "resource": "p"}},
            }
        },
        "ResourceName",
        ["actor and critic", "share"],
    ),
    ("fraction without total", pools(2, 2, actorFraction="1/2"), "FractionWithoutTotal", ["total"]),
    ("fraction too large", {"placement": {"actorFraction": "4/3"}}, "FractionTooLarge", ["4/3", "less than 1"]),
    ("owned", config(trainer={"nnodes": 2}), "OwnedSetting", ["trainer.nnodes", "2", "placement"]),
    ("owned below", config(ray_kwargs={"ray_init": {"num_cpus": 4}}), "OwnedSetting", ["ray_kwargs.ray_init.num_cpus"]),
    (
        "typo in config",
        config(data={"train_batchsize": 8}),
        "UnknownSetting",
        ["data.train_batchsize", "did you mean data.train_batch_size?"],
    ),
    (
        "setting in the wrong section",
        config(trainer={"kl_loss_coef": 0.1}),
        "UnknownSetting",
        ["did you mean actor_rollout_ref.actor.kl_loss_coef?"],
    ),
    ("unknown setting", config(zzz={"qqq": 8}), "UnknownSetting", ["zzz.qqq", "does not know"]),
    ("dotted config", config(**{"data.train_batch_size": 8}), "ConfigNotNested", ["data: {train_batch_size: …}"]),
    ("steps and epochs", {"training": {"steps": 3, "epochs": 2}}, "StepsAndEpochs", ["steps (3)", "epochs (2)"]),
    ("reward file", {"training": {"reward": {"function": {"name": "f"}}}}, "RewardFunctionFile", ["neither"]),
    (
        "two reward files",
        {"training": {"reward": {"function": {"configMap": "c", "path": "p"}}}},
        "RewardFunctionFile",
        ["both"],
    ),
    ("ray of the image", {"rayVersion": "2.54.0"}, "RayVersion", ["2.54.0", "2.58.0", "image"]),
    ("old ray", {"image": "mine", "rayVersion": "2.40.0"}, "RayVersion", ["2.40.0", "2.53.0"]),
    (
        "checkpoints in a pod",
        {"storage": {"checkpoints": {"path": "/ckpt"}}},
        "CheckpointsNotShared",
        ["/ckpt", "3 pods", "claimName"],
    ),
    (
        "checkpoints read-only",
        {"storage": {"checkpoints": {"path": "/d/c"}, "volumes": [{"claimName": "v", "path": "/d"}]}},
        "CheckpointsReadOnly",
        ["readOnly: false"],
    ),
    (
        "two claims at a path",
        {"storage": {"volumes": [{"claimName": "a", "path": "/d"}, {"claimName": "b", "path": "/d/"}]}},
        "MountedTwice",
        ["2 claims", "/d"],
    ),
    (
        "env twice",
        {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        "DuplicateEnv",
        ["A", "2 times"],
    ),
    (
        "env with two values",
        {"env": [{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        "EnvValue",
        ["both"],
    ),
    ("env from nowhere", {"env": [{"name": "A", "valueFrom": {}}]}, "EnvValue", ["exactly one"]),
    ("KAI without queue", {"scheduling": {"gangScheduler": "KAI"}}, "QueueMissing", ["queueName"]),
]


@pytest.mark.parametrize(("spec", "reason", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_finds(spec: dict[str, Any], reason: str, words: list[str]) -> None:
    found = [f for f in check_job(make_job(spec)).findings if f.reason == reason]
    assert found, f"{reason} was not found"
    for word in words:
        assert any(word in f.message for f in found), f"{word!r} in none of {[f.message for f in found]}"
    for f in found:
        assert f.message.endswith((".", "?"))
        assert re.match(r"^(spec|metadata)\.[A-Za-z0-9_.]+$", f.field)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a" * 39, "NameTooLong"), ("7b", "NameNotALabel"), ("a.b", "NameNotALabel"), ("Job", "NameNotALabel")],
)
def test_names_that_kuberay_would_cut_or_refuse(name: str, reason: str) -> None:
    assert reason in [f.reason for f in check_job(make_job(name=name)).findings]


def test_the_longest_name_leaves_room_for_attempt_and_pool() -> None:
    name = "a" * 38
    assert check_job(make_job(name=name)).findings == ()
    assert len(f"{name}-9999-critic") <= 50


def test_all_findings_at_once() -> None:
    plan = check_job(make_job({**SEVEN, **config(trainer={"nnodes": 1}), "rayVersion": "2.1.0"}, name="9"))
    assert {f.reason for f in plan.findings} >= {"BatchNotDivisible", "OwnedSetting", "RayVersion", "NameNotALabel"}


def test_a_local_run_has_no_pods_to_name() -> None:
    job = make_job({"storage": {"checkpoints": {"path": "/ckpt"}}}, name="9-lives")
    assert check_job(job).findings
    assert check_job(job, on_kubernetes=False).findings == ()


@pytest.mark.parametrize(
    "spec",
    [
        {},
        pools(2, 1),
        {"placement": {"mode": "Colocated"}, **config(algorithm={"adv_estimator": "grpo"})},
        {**pools(2, 1, reward=1), "training": {"reward": {"model": {"path": "rm"}}}},
        {"training": {"batchSize": 1026, "miniBatchSize": 513, "rollout": {"samplesPerPrompt": 16}}},
        config(actor_rollout_ref={"actor": {"use_dynamic_bsz": True}}, critic={"use_dynamic_bsz": True}),
        {
            "storage": {
                "checkpoints": {"path": "/d/c"},
                "volumes": [{"claimName": "v", "path": "/d", "readOnly": False}],
            }
        },
    ],
)
def test_what_is_right_has_no_findings(spec: dict[str, Any]) -> None:
    assert check_job(make_job(spec)).findings == ()


@given(
    st.integers(1, 16),
    st.integers(1, 16),
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(1, 16),
    st.integers(1, 5),
)
def test_the_sizes_it_proposes_do_fit(actor: int, critic: int, batch: int, mini: int, micro: int, samples: int) -> None:
    def reasons(batch: int, mini: int, micro: int) -> list[tuple[str, str]]:
        training = {
            "batchSize": batch,
            "miniBatchSize": mini,
            "microBatchSizePerGPU": micro,
            "rollout": {"samplesPerPrompt": samples},
        }
        return [
            (f.reason, f.message) for f in check_job(make_job({**pools(actor, critic), "training": training})).findings
        ]

    for _, message in reasons(batch, mini, micro):
        proposed = re.search(r"batchSize (\d+), miniBatchSize (\d+), microBatchSizePerGPU (\d+)", message)
        assert proposed, message
        assert reasons(*map(int, proposed.groups())) == []


@pytest.mark.parametrize(
    ("placement", "available", "words"),
    [
        ({"total": {"gpusPerNode": 8}}, (1, 8), None),
        ({"total": {"gpusPerNode": 8}}, (4, 4), ["needs 8 GPUs on one node", "has 4"]),
        ({"total": {"nodes": 3, "gpusPerNode": 8}}, (2, 8), ["24 GPUs on 3 nodes", "16 on 2"]),
        ({"total": {"nodes": 3, "gpusPerNode": 8}}, (3, 8), None),
    ],
)
def test_says_both_numbers_where_there_is_not_enough(
    placement: dict[str, Any], available: tuple[int, int], words: list[str] | None
) -> None:
    found = list(fits(check_job(make_job({"placement": placement})), nodes=available[0], gpus_per_node=available[1]))
    assert bool(found) == bool(words)
    for word in words or ():
        assert word in found[0].message


def test_every_check_is_tripped_by_a_case() -> None:
    """A check without a case could go silent unseen."""
    silent = set(CHECKS + CLUSTER_CHECKS)
    from split_ppo.placement.checks.case import Case
    from split_ppo.placement.planner import plan_placement
    from split_ppo.verl_config import verl_settings

    documents = [job_document(spec) for _, spec, _, _ in CASES] + [job_document(name="9")]
    for document in documents:
        job = make_job(document["spec"], **document["metadata"])
        case = Case(job=job, plan=plan_placement(job.spec.placement), settings=verl_settings(job.spec))
        silent -= {check for check in silent if list(check(case))}
    assert silent == set()
