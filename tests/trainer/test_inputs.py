"""Wrong files are found before anything starts, each with its sentence."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from plans import tiny_plan, tiny_settings

from split_ppo.verl_config import merge
from split_ppo_trainer.driver import job_environment
from split_ppo_trainer.failures import RunFailure
from split_ppo_trainer.inputs import all_models_local, check_inputs
from split_ppo_trainer.room import check_room, checkpoint_bytes
from split_ppo_trainer.toy import materialise

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return materialise(tiny_settings(1), tmp_path_factory.mktemp("toys"))


def with_reward(text: str, name: str = "compute_score") -> Callable[[Path], Settings]:
    def write(folder: Path) -> Settings:
        file = folder / "reward.py"
        file.write_text(text)
        return {"reward": {"custom_reward_function": {"path": str(file), "name": name}}}

    return write


def with_parquet(**columns: list[Any]) -> Callable[[Path], Settings]:
    def write(folder: Path) -> Settings:
        import pyarrow
        import pyarrow.parquet

        file = folder / "rows.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        return {"data": {"train_files": [str(file)]}}

    return write


def with_text_as_parquet(folder: Path) -> Settings:
    (folder / "rows.parquet").write_text("not columns")
    return {"data": {"train_files": [str(folder / "rows.parquet")]}}


def with_empty_model(folder: Path) -> Settings:
    return {"critic": {"model": {"path": str(folder)}}}


PROMPT = [[{"role": "user", "content": "1 + 1 ?"}]]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            lambda _: {"actor_rollout_ref": {"model": {"path": "/no/such/model"}}},
            "actor's model /no/such/model is not a folder",
        ),
        (with_empty_model, "has no config.json"),
        (lambda _: {"data": {"train_files": ["/no/rows.parquet"]}}, "data file /no/rows.parquet is not there"),
        (with_text_as_parquet, "is not a parquet file that can be read"),
        (with_parquet(prompt=PROMPT), "has no column data_source, reward_model; it has prompt"),
        (with_parquet(prompt=PROMPT, data_source=["x"], reward_model=[{"style": "rule"}]), "no field ground_truth"),
        (with_reward("def other(): ..."), "has no function compute_score; it has other"),
        (
            with_reward("import no_such_module"),
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            with_reward("def compute_score(**_):\n    return 1 / 0"),
            r"raised ZeroDivisionError: division by zero \(line 2\)",
        ),
        (with_reward("def compute_score(text):\n    return 1.0"), "raised TypeError: .*unexpected keyword argument"),
    ],
)
def test_a_sentence_for_each(
    settings: Settings, tmp_path: Path, wrong: Callable[[Path], Settings], sentence: str
) -> None:
    broken = merge(deepcopy(settings), wrong(tmp_path))
    with pytest.raises(RunFailure, match=sentence) as refused:
        check_inputs(broken)
    assert refused.value.exit_code == 2


def test_what_is_right_passes(settings: Settings) -> None:
    check_inputs(settings)
    assert all_models_local(settings)


def test_a_name_on_a_hub_is_left_to_verl(settings: Settings) -> None:
    hub = merge(deepcopy(settings), {"actor_rollout_ref": {"model": {"path": "Qwen/Qwen2.5-7B-Instruct"}}})
    check_inputs(hub)
    assert not all_models_local(hub)


def test_a_checkpoint_that_can_never_fit_is_refused(settings: Settings, tmp_path: Path) -> None:
    check_room(settings, tmp_path / "not there yet", critic=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        with pytest.raises(RunFailure, match=r"does not fit under .*take at least 11 MB, and 8 MB are left") as refused:
            check_room(settings, tmp_path, critic=True)
        check_room(settings, tmp_path, critic=False)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert (refused.value.reason, refused.value.exit_code) == ("DiskFull", 2)


@pytest.mark.parametrize(
    ("change", "share"),
    [
        ({"actor": {"fsdp_config": {"model_dtype": "bf16"}}}, 1 / 2),
        ({"actor": {"checkpoint": {"save_contents": ["model"]}}}, 1 / 3),
        ({"actor": {"strategy": "megatron"}}, 0),
        ({"model": {"lora_rank": 8}}, 0),
        ({"model": {"path": "Qwen/Qwen2.5-7B-Instruct"}}, 0),
    ],
)
def test_only_what_is_certain_is_counted(settings: Settings, change: Settings, share: float) -> None:
    whole = checkpoint_bytes(settings, critic=False)
    changed = merge(deepcopy(settings), {"actor_rollout_ref": change})
    assert checkpoint_bytes(changed, critic=False) == whole * share


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com/spec/v1\n", b"\xff\xff\0\0\0\0\0\0{"])
def test_a_model_that_did_not_arrive_is_refused(settings: Settings, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    broken = merge(deepcopy(settings), {"actor_rollout_ref": {"model": {"path": str(tmp_path)}}})
    with pytest.raises(RunFailure, match="is not a whole safetensors file") as refused:
        check_room(broken, tmp_path, critic=False)
    assert refused.value.reason == "BadInput"


WRONG_BATCHES: list[tuple[str, Settings, str]] = [
    ("uneven", {"actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 3}}}, "3 rows, which 2 GPUs of pool actor"),
    ("uneven", {"actor_rollout_ref": {"actor": {"ppo_micro_batch_size_per_gpu": 4}}}, "gets 2 rows of the actor's"),
    ("split", {"critic": {"ppo_micro_batch_size_per_gpu": 8}}, "gets 4 rows of the critic's mini-batch"),
    ("split", {"critic": {"ppo_mini_batch_size": 16}}, "verl refuses the settings"),
    ("split", {}, "nothing wrong"),
]
CHECK_PLANS = """
import json, sys
from split_ppo.runplan import RunPlan
from split_ppo_trainer.config import check, compose

for text in json.load(sys.stdin):
    plan = RunPlan.model_validate_json(text)
    try:
        check(compose(plan), plan)
        print("nothing wrong", file=sys.stderr)
    except Exception as problem:
        print(str(problem).splitlines()[0], file=sys.stderr)
"""


@pytest.mark.trainer
def test_batches_are_checked_pool_by_pool(settings: Settings) -> None:
    """In a process of its own: verl reads its platform when it is imported."""
    models = {role: {"model": settings[role]["model"]} for role in ("actor_rollout_ref", "critic")}
    plans = [tiny_plan(layout=layout, config=merge(deepcopy(models), config)) for layout, config, _ in WRONG_BATCHES]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK_PLANS],
        input=json.dumps([plan.to_json() for plan in plans]),
        env=os.environ | job_environment(plans[0], os.environ),
        capture_output=True,
        text=True,
    )
    said = done.stderr.splitlines()[-len(WRONG_BATCHES) :]
    for (_, _, sentence), line in zip(WRONG_BATCHES, said, strict=True):
        assert sentence in line, done.stderr
