"""What the driver decides before it touches Ray."""

from pathlib import Path

from plans import tiny_plan

from split_ppo.runplan import JobRef
from split_ppo_trainer.driver import checkpoint_ranks, implied_resume, job_environment


def test_only_a_later_attempt_continues_by_itself(tmp_path: Path) -> None:
    first = tiny_plan(storage=tmp_path)
    second = first.model_copy(update={"job": JobRef(name="tiny", attempt=2)})
    nowhere = second.model_copy(update={"storage": tiny_plan().storage})
    assert [implied_resume(plan) for plan in (first, second, nowhere)] == [None, "latest", None]


def test_ranks_are_those_of_the_pools_that_write_files() -> None:
    assert checkpoint_ranks(tiny_plan(layout="uneven")) == {"actor": 2, "critic": 1}
    assert checkpoint_ranks(tiny_plan(layout="colocated")) == {"actor": 1, "critic": 1}


def test_the_users_environment_wins_and_gpus_get_nothing_of_the_cpus() -> None:
    plan = tiny_plan()
    mine = job_environment(plan, {"OMP_NUM_THREADS": "4"})
    assert mine["OMP_NUM_THREADS"] == "4"
    assert mine["VERL_PLATFORM"] == "cpu"
    assert mine["TOKENIZERS_PARALLELISM"] == "false"
    on_gpus = plan.model_copy(update={"placement": plan.placement.model_copy(update={"device": "GPU"})})
    assert not [name for name in job_environment(on_gpus, {}) if "CPU" in name or name.startswith(("VERL", "OMP"))]


def test_what_verls_own_entry_sets_for_an_engine_or_for_determinism_is_set() -> None:
    megatron = tiny_plan(config={"actor_rollout_ref": {"actor": {"strategy": "megatron"}}})
    assert job_environment(megatron, {})["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in job_environment(tiny_plan(), {})
    repeatable = tiny_plan(config={"actor_rollout_ref": {"rollout": {"full_determinism": True}}})
    assert job_environment(repeatable, {})["VLLM_BATCH_INVARIANT"] == "1"
