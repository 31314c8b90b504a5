from builders import make_job
from split_ppo.verl_config import OWNED, leaves, lookup, merge, verl_settings


def test_typed_fields_reach_verl() -> None:
    job = make_job(
        {
            "training": {
                "model": {"actor": "a", "critic": "c"},
                "batchSize": 64,
                "miniBatchSize": 32,
                "microBatchSizePerGPU": 4,
                "learningRate": {"actor": 1e-4, "critic": 2e-4},
                "rollout": {
                    "tensorParallelSize": 2,
                    "samplesPerPrompt": 3,
                    "temperature": 0.7,
                    "gpuMemoryUtilization": 0.3,
                },
                "seed": 9,
                "steps": 5,
            }
        }
    )
    settings = verl_settings(job.spec)
    expected = {
        "actor_rollout_ref.model.path": "a",
        "critic.model.path": "c",
        "data.train_files": ["train.parquet"],
        "data.train_batch_size": 64,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 32,
        "critic.ppo_mini_batch_size": 32,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
        "critic.ppo_micro_batch_size_per_gpu": 4,
        "actor_rollout_ref.actor.optim.lr": 1e-4,
        "critic.optim.lr": 2e-4,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 2,
        "actor_rollout_ref.rollout.n": 3,
        "actor_rollout_ref.rollout.temperature": 0.7,
        "actor_rollout_ref.rollout.gpu_memory_utilization": 0.3,
        "trainer.total_training_steps": 5,
        "data.seed": 9,
    }
    assert {path: lookup(settings, path) for path in expected} == expected


def test_the_critic_starts_from_the_actor_by_default() -> None:
    assert lookup(verl_settings(make_job().spec), "critic.model.path") == "model"


def test_config_wins_over_fields_and_device() -> None:
    config = {"data": {"train_batch_size": 8}, "actor_rollout_ref": {"rollout": {"dtype": "bfloat16"}}}
    settings = verl_settings(make_job({"placement": {"device": "CPU"}, "training": {"config": config}}).spec)
    assert lookup(settings, "data.train_batch_size") == 8
    assert lookup(settings, "actor_rollout_ref.rollout.dtype") == "bfloat16"
    assert lookup(settings, "actor_rollout_ref.rollout.enforce_eager") is True


def test_the_gpu_path_is_left_to_verl() -> None:
    settings = verl_settings(make_job().spec)
    assert lookup(settings, "actor_rollout_ref.actor.strategy") is None
    assert lookup(settings, "actor_rollout_ref.rollout.enforce_eager") is None


def test_checkpoints_and_validation_are_off_until_asked_for() -> None:
    assert lookup(verl_settings(make_job().spec), "trainer.save_freq") == -1
    assert lookup(verl_settings(make_job().spec), "trainer.test_freq") == -1
    spec = make_job({"training": {"data": {"validation": ["v"]}}, "storage": {"everySteps": 7}}).spec
    settings = verl_settings(spec, checkpoint_dir="/c/job")
    assert lookup(settings, "trainer.save_freq") == 7
    assert lookup(settings, "trainer.test_freq") == 7
    assert lookup(settings, "trainer.default_local_dir") == "/c/job"


def test_reward_function_and_model() -> None:
    reward = {"function": {"configMap": "c", "name": "score"}, "model": {"path": "rm", "tensorParallelSize": 2}}
    settings = verl_settings(make_job({"training": {"reward": reward}}).spec, reward_file="/r/reward.py")
    assert lookup(settings, "reward.custom_reward_function") == {"path": "/r/reward.py", "name": "score"}
    assert lookup(settings, "reward.reward_model.enable") is True
    assert lookup(settings, "reward.reward_model.model_path") == "rm"
    assert lookup(settings, "reward.reward_model.rollout.tensor_model_parallel_size") == 2


def test_a_spec_is_never_changed() -> None:
    spec = make_job({"training": {"config": {"data": {"seed": 3}}}}).spec
    before = spec.model_dump()
    merge(verl_settings(spec), {"data": {"seed": 4, "extra": {"x": 1}}})
    assert spec.model_dump() == before


def test_leaves_and_owned_paths() -> None:
    assert dict(leaves({"a": {"b": 1, "c": {}}, "d": None})) == {"a.b": 1, "a.c": {}, "d": None}
    assert all(lookup({}, path) is None for path in OWNED)
