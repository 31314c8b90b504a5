"""verl's complete config for a plan: verl's defaults, the plan's settings over them, then what placement owns.

verl knows one pool: `trainer.nnodes x n_gpus_per_node`. It is told the actor's, and the checks it makes with that
number are made again for the critic with the critic's.
"""

import math
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from split_ppo.placement.plan import PoolPlan
from split_ppo.runplan import RunPlan
from split_ppo_trainer.failures import bad_input, explain
from split_ppo_trainer.roles import RolePools

EXTENSION = "split_ppo_trainer.vllm_extension.WorkerExtension"


def compose(plan: RunPlan) -> DictConfig:
    """The config verl's trainer gets."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        defaults = hydra_compose("ppo_trainer")
    OmegaConf.set_struct(defaults, False)
    config = OmegaConf.merge(defaults, OmegaConf.create(plan.verl))
    roles = RolePools.from_plan(plan.placement.roles)
    actor = plan.placement.pool(roles.actor)
    with open_dict(config):
        _own_placement(config, plan, roles, actor)
        _own_checkpoints(config, plan)
        config.data.seed = 1 if config.data.get("seed") is None else config.data.seed
    return config


def _own_placement(config: DictConfig, plan: RunPlan, roles: RolePools, actor: PoolPlan) -> None:
    trainer = config.trainer
    trainer.use_v1 = True
    trainer.v1.trainer_mode = "split"
    trainer.v1.split = {"seeded_rollout": plan.placement.device == "CPU"}
    for rollout in (config.actor_rollout_ref.rollout, config.reward.reward_model.rollout):
        OmegaConf.update(rollout, "engine_kwargs.vllm.worker_extension_cls", EXTENSION, force_add=True)
    if plan.placement.device == "CPU":
        trainer.device = "cpu"
        _suit_the_cpu(config)
    block = math.gcd(*actor.gpus)
    trainer.n_gpus_per_node, trainer.nnodes = block, actor.world_size // block
    # Storage units belong beside the rollout that fills them; one per node is what the pods' CPUs are reckoned with.
    storage = config.transfer_queue.backend.SimpleStorage
    storage.required_node_resource = actor.resource
    asked = OmegaConf.select(OmegaConf.create(plan.verl), "transfer_queue.backend.SimpleStorage.num_data_storage_units")
    storage.num_data_storage_units = asked or len(actor.gpus)
    reward = config.reward.reward_model
    if reward.enable:
        pool = plan.placement.pool(roles.reward)
        reward.enable_resource_pool = roles.reward_alone
        block = math.gcd(*pool.gpus)
        reward.n_gpus_per_node, reward.nnodes = block, pool.world_size // block


def _suit_the_cpu(config: DictConfig) -> None:
    """Every vLLM server, the reward model's too: no sleep mode, which needs a GPU's allocator, and the worker inside the
    engine's process where a replica has one: a process less, and no shared memory between the two to leave behind."""
    for rollout in (config.actor_rollout_ref.rollout, config.reward.reward_model.rollout):
        OmegaConf.update(rollout, "enable_sleep_mode", False, force_add=True)
        if rollout.tensor_model_parallel_size == 1 and rollout.get("pipeline_model_parallel_size", 1) == 1:
            OmegaConf.update(rollout, "engine_kwargs.vllm.distributed_executor_backend", "uni", force_add=True)


def _own_checkpoints(config: DictConfig, plan: RunPlan) -> None:
    trainer = config.trainer
    trainer.default_local_dir = plan.storage.path
    trainer.default_hdfs_dir = None
    trainer.save_freq = plan.storage.every_steps if plan.storage.path else -1
    # Pruning is ours: verl forgets what an earlier process wrote.
    trainer.max_actor_ckpt_to_keep = trainer.max_critic_ckpt_to_keep = None
    trainer.del_local_ckpt_after_load = False
    trainer.resume_mode = "disable"


def check(config: DictConfig, plan: RunPlan) -> None:
    """verl's own validation, once per pool with the pool's size."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    roles = RolePools.from_plan(plan.placement.roles)
    if need_critic(config) and "Critic" not in plan.placement.roles:
        raise bad_input("The algorithm needs a critic and the plan places none; add the role Critic to the plan.")
    rows_per_prompt = config.actor_rollout_ref.rollout.n
    _check_batches("actor", config.actor_rollout_ref.actor, plan.placement.pool(roles.actor), rows_per_prompt)
    if need_critic(config):
        _check_batches("critic", config.critic, plan.placement.pool(roles.critic), rows_per_prompt)
    try:
        validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=False)
        if need_critic(config):
            critic: Any = omega_conf_to_dataclass(config.critic)
            critic.validate(plan.placement.pool(roles.critic).world_size, config.data.train_batch_size)
    except Exception as problem:
        raise bad_input(f"verl refuses the settings: {explain(problem).message}") from problem


def _check_batches(role: str, settings: DictConfig, pool: PoolPlan, rows_per_prompt: int) -> None:
    """What verl finds out two minutes later, inside a worker."""
    rows, ranks = settings.ppo_mini_batch_size * rows_per_prompt, pool.world_size
    if rows % ranks:
        raise bad_input(
            f"A mini-batch of the {role} has {rows} rows, which {ranks} GPUs of pool {pool.name} cannot share equally; "
            f"make miniBatchSize a multiple of {ranks}."
        )
    micro = settings.ppo_micro_batch_size_per_gpu
    if not settings.use_dynamic_bsz and micro is not None and (rows // ranks) % micro:
        raise bad_input(
            f"Each GPU of pool {pool.name} gets {rows // ranks} rows of the {role}'s mini-batch, which is no multiple of "
            f"microBatchSizePerGPU {micro}; lower that to a divisor of {rows // ranks}."
        )
