"""The trainer's command refuses what cannot work: exit status, one sentence last on stderr, the same in the event log."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clusters import local_cluster
from commands import Trainer
from plans import tiny_plan

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"actor_rollout_ref": {"model": {"path": "/no/model"}}}, "The actor's model /no/model is not a folder"),
        ({"data": {"train_files": ["/no/rows.parquet"]}}, "The data file /no/rows.parquet is not there."),
        ({"reward": {"custom_reward_function": {"name": "score"}}}, "has no function score; it has compute_score"),
        ({"data": {"train_files": ["toy://numbers/train.parquet"]}}, "toy://numbers/train.parquet names no toy"),
    ],
    ids=["model", "data", "reward", "toy"],
)
def test_bad_input_ends_with_2_before_ray_is_asked(config: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    trainer = Trainer(tiny_plan(config=config), tmp_path, address="127.0.0.1:1")
    assert trainer.wait() == 2
    assert sentence in trainer.last_line()
    assert trainer.last_line().startswith("BadInput: ")


def test_a_plan_that_is_none_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"kind": "RunPlan"}')
    command = [
        sys.executable,
        "-m",
        "split_ppo_trainer",
        "--plan",
        tmp_path / "plan.json",
        "--output",
        tmp_path / "out",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not a plan file" in done.stderr


def test_missing_pools_end_with_3_and_a_sentence_for_each(tmp_path: Path) -> None:
    plan = tiny_plan(layout="split")
    other = tiny_plan(layout="colocated")  # has the actor's pool and no critic's
    with local_cluster(other.placement) as cluster:
        trainer = Trainer(plan, tmp_path, "--pools-deadline", "2", address=cluster.address)
        assert trainer.wait() == 3
    sentence = "Pool critic needs 1 Ray node with resource critic_pool; there are none."
    assert trainer.error()["reason"] == "PoolsMissing"
    assert trainer.error()["message"].endswith(sentence)
    assert trainer.last_line() == f"PoolsMissing: {trainer.error()['message']}"
    stages = [event["message"] for event in trainer.events() if event["event"] == "stage"]
    assert stages[-1] == f"Waiting for the pools. {sentence}"


def test_help_teaches() -> None:
    done = subprocess.run([sys.executable, "-m", "split_ppo_trainer", "--help"], capture_output=True, text=True)
    for word in ("plan.json", "events.jsonl", "split/overlap_efficiency", "Exit status", "--resume"):
        assert word in done.stdout
