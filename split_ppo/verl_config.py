"""From a job to verl's settings: typed fields first, then what the device needs, then the user's `config` on top.

The result is nested like verl's own configuration and holds everything that differs from verl's `ppo_trainer` defaults. The
trainer lays it over those defaults and then sets what placement owns; `OWNED` lists that, so that `config` can be refused where
it would be overwritten or would contradict the plan.

Settings that come from the layout of files on a machine (checkpoint folder, reward file) are arguments: on Kubernetes they are
paths in the pods, in `split-ppo run` paths of this machine.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from split_ppo.api.job import SplitPPOJobSpec

Settings = dict[str, Any]

# What placement, storage and the trainer decide, with the field to use instead.
OWNED: dict[str, str] = {
    "trainer.nnodes": "placement",
    "trainer.n_gpus_per_node": "placement",
    "trainer.device": "placement.device",
    "trainer.use_v1": "nothing: the split trainer is one of verl's V1 trainers",
    "trainer.v1.trainer_mode": "placement.mode and overlap",
    "trainer.save_freq": "storage.everySteps",
    "trainer.default_local_dir": "storage.checkpoints.path",
    "trainer.max_actor_ckpt_to_keep": "storage.keep",
    "trainer.max_critic_ckpt_to_keep": "storage.keep",
    "trainer.resume_mode": "storage.checkpoints: a job resumes by itself",
    "trainer.resume_from_path": "storage.checkpoints: a job resumes by itself",
    "actor_rollout_ref.hybrid_engine": "placement.roles",
    "actor_rollout_ref.rollout.nnodes": "placement.roles",
    "actor_rollout_ref.rollout.n_gpus_per_node": "placement.roles",
    "reward.reward_model.enable_resource_pool": "placement.roles.rewardModel",
    "reward.reward_model.nnodes": "placement.pools.reward",
    "reward.reward_model.n_gpus_per_node": "placement.pools.reward",
    "ray_kwargs": "nothing: the Ray cluster is made for the job",
}


def verl_settings(
    spec: SplitPPOJobSpec, *, checkpoint_dir: str | None = None, reward_file: str | None = None
) -> Settings:
    """verl's settings for the job."""
    settings = _typed(spec, reward_file=reward_file)
    if spec.placement.device == "CPU":
        merge(settings, _cpu())
    if checkpoint_dir is not None:
        merge(settings, _checkpoints(spec, checkpoint_dir))
    return merge(settings, deepcopy(spec.training.config))


def _typed(spec: SplitPPOJobSpec, *, reward_file: str | None) -> Settings:
    t, micro = spec.training, spec.training.micro_batch_size_per_gpu
    settings: Settings = {
        "algorithm": {"adv_estimator": "gae"},
        "data": {
            "train_files": list(t.data.train),
            # verl opens the validation files even when it never validates.
            "val_files": list(t.data.validation or t.data.train),
            "train_batch_size": t.batch_size,
            "max_prompt_length": t.data.max_prompt_length,
            "max_response_length": t.data.max_response_length,
            "filter_overlong_prompts": True,
            "seed": t.seed,
            "trust_remote_code": t.model.trust_remote_code,
        },
        "actor_rollout_ref": {
            "model": {"path": t.model.actor, "trust_remote_code": t.model.trust_remote_code},
            "actor": {
                "ppo_mini_batch_size": t.mini_batch_size,
                "ppo_micro_batch_size_per_gpu": micro,
                "data_loader_seed": t.seed,
                "optim": {"lr": t.learning_rate.actor},
            },
            "ref": {"log_prob_micro_batch_size_per_gpu": micro},
            "rollout": {
                "name": t.rollout.engine,
                "tensor_model_parallel_size": t.rollout.tensor_parallel_size,
                "n": t.rollout.samples_per_prompt,
                "temperature": t.rollout.temperature,
                "gpu_memory_utilization": t.rollout.gpu_memory_utilization,
                "log_prob_micro_batch_size_per_gpu": micro,
                "seed": t.seed,
            },
        },
        "critic": {
            "model": {"path": t.model.critic or t.model.actor, "trust_remote_code": t.model.trust_remote_code},
            "ppo_mini_batch_size": t.mini_batch_size,
            "ppo_micro_batch_size_per_gpu": micro,
            "data_loader_seed": t.seed,
            "optim": {"lr": t.learning_rate.critic},
        },
        "trainer": {
            "total_epochs": t.epochs or 1,
            "total_training_steps": t.steps,
            # Progress has its own sinks; verl's console logger stays for the log file.
            "logger": ["console"],
            "val_before_train": False,
            "test_freq": -1,
            "save_freq": -1,
        },
    }
    if t.steps is not None:
        # verl stops at whichever comes first; as many epochs as steps can never be the smaller one.
        settings["trainer"]["total_epochs"] = t.steps
    if t.data.validation:
        settings["trainer"]["test_freq"] = spec.storage.every_steps
    if reward_file is not None and t.reward.function is not None:
        settings["reward"] = {"custom_reward_function": {"path": reward_file, "name": t.reward.function.name}}
    if t.reward.model is not None:
        model = {
            "enable": True,
            "model_path": t.reward.model.path,
            "rollout": {
                "name": t.rollout.engine,
                "tensor_model_parallel_size": t.reward.model.tensor_parallel_size,
                "gpu_memory_utilization": t.reward.model.gpu_memory_utilization,
                "prompt_length": t.data.max_prompt_length + t.data.max_response_length,
                "response_length": t.data.max_response_length,
            },
        }
        merge(settings, {"reward": {"reward_model": model}})
    return settings


def _cpu() -> Settings:
    """What verl, FSDP and vLLM need where there is no GPU: no fused kernels, full precision, one helper of each kind."""
    full = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    model = {
        "override_config": {"attn_implementation": "sdpa"},
        "use_remove_padding": False,
        "enable_gradient_checkpointing": False,
    }
    engine = {"use_torch_compile": False, "mixed_precision": full}
    rollout = {"dtype": "float32", "enforce_eager": True, "free_cache_engine": False}
    return {
        "data": {"dataloader_num_workers": 0},
        "actor_rollout_ref": {
            "model": model,
            "actor": {"strategy": "fsdp2", "fsdp_config": deepcopy(engine)},
            "ref": {"strategy": "fsdp2", "fsdp_config": deepcopy(engine)},
            "rollout": {
                **rollout,
                "enable_sleep_mode": False,
                "load_format": "auto",
                "calculate_log_probs": True,
                "agent": {"num_workers": 1},
                "checkpoint_engine": {"update_weights_bucket_megabytes": 64},
            },
        },
        "critic": {"strategy": "fsdp2", "fsdp": deepcopy(engine), "model": deepcopy(model)},
        "reward": {"num_workers": 1, "reward_model": {"rollout": rollout}},
        "transfer_queue": {"backend": {"SimpleStorage": {"num_data_storage_units": 1}}},
    }


def _checkpoints(spec: SplitPPOJobSpec, folder: str) -> Settings:
    return {
        "trainer": {"save_freq": spec.storage.every_steps, "default_local_dir": folder, "resume_mode": "auto"},
    }


def merge(base: Settings, over: Mapping[str, Any]) -> Settings:
    """`over` laid on `base`, in place: mappings are joined, anything else replaces."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value
    return base


def lookup(settings: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None."""
    node: Any = settings
    for key in path.split("."):
        if not isinstance(node, Mapping) or key not in node:
            return None
        node = node[key]
    return node


def leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its dotted path; an empty mapping counts as one."""
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{path}.")
        else:
            yield path, value
