"""What verl builds at start-up, changed where placement asks for it: pinned pools, our workers, helpers beside the actor.

The step itself is in trainer.py; this is the part of it that runs once.
"""

from typing import Any

import ray
from omegaconf import DictConfig, open_dict
from verl.trainer.ppo.utils import Role, need_critic, need_reference_policy
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from split_ppo_trainer.pools import PinnedPools, equal_blocks
from split_ppo_trainer.roles import RolePools, assign_pools, worker_classes
from split_ppo_trainer.rollout import start_agent_workers, start_reward_workers
from split_ppo_trainer.run import Run
from split_ppo_trainer.usage import (
    Member,
    Usage,
    count_requests,
    sample_rank,
    sample_server,
    sample_server_beside_ranks,
)

# verl's own default of 2 s rounds every generation up to it.
POLL_INTERVAL_S = 0.05


class PlacedTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer with each role on its pool."""

    def __init__(self, config: DictConfig, run: Run) -> None:
        self.run = run
        self.pools = RolePools.from_plan(run.plan.placement.roles)
        self.usage = Usage([])
        super().__init__(config)

    def _build_replay_buffer(self) -> Any:
        self.trainer_mode = "sync"  # verl keys its synchronous behaviour on this word, in six places
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = POLL_INTERVAL_S
        return buffer

    def _setup(self) -> None:
        self.run.enter(
            "workers", f"Placing workers: {self.run.describe_pools()}.", "the workers to be placed and built"
        )
        self._reward_workers = self.config.reward.num_workers
        with open_dict(self.config):
            self.config.reward.num_workers = 0  # verl would spread them over every node; they are started below
        super()._setup()

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        config, placement = self.config, self.run.plan.placement
        model = config.actor_rollout_ref.model
        lora = model.get("lora", {}).get("rank", 0) or model.get("lora_rank", 0)
        self.mapping = assign_pools(
            self.pools,
            needs_ref=need_reference_policy(config),
            ref_in_actor=lora > 0 or model.get("lora_adapter_path") is not None,
            critic=need_critic(config),
            reward=config.reward.reward_model.enable,
        )
        self.role_worker_mapping = worker_classes(self.mapping, config.trainer.device)
        if config.reward.reward_model.enable:
            blocks = equal_blocks(placement.pool(self.pools.reward).gpus)
            config.reward.reward_model.n_gpus_per_node = blocks[0]
            config.reward.reward_model.nnodes = len(blocks)
        used = set(self.mapping.values())
        self.resource_pool_manager = PinnedPools(
            resource_pool_spec={pool.name: equal_blocks(pool.gpus) for pool in placement.pools if pool.name in used},
            mapping=self.mapping,
            node_resource={pool.name: pool.resource for pool in placement.pools},
        )

    @property
    def reward_loop_manager(self) -> Any:
        return self._reward_loop_manager

    @reward_loop_manager.setter
    def reward_loop_manager(self, manager: Any) -> None:
        """verl sets it between building the models and starting the rollout servers: where one stage becomes the other.

        The helpers start here, beside the servers, instead of before or after them: that is when cores are idle.
        """
        self.run.enter("rollout", "Starting the rollout servers.", "the rollout servers to start")
        with open_dict(self.config):
            self.config.reward.num_workers = self._reward_workers
        resource = self.run.plan.placement.pool(self.pools.actor).resource
        manager.reward_loop_workers = start_reward_workers(
            self.config,
            count=self._reward_workers,
            resource=resource,
            router_address=manager.reward_router_address,
        )
        self.agent_workers = start_agent_workers(
            count=self.config.actor_rollout_ref.rollout.agent.num_workers, resource=resource
        )
        self._reward_loop_manager = manager

    def wait_for_helpers(self) -> None:
        """Every helper has started, so that the first step measures a step."""
        helpers = [*self.reward_loop_manager.reward_loop_workers, self.llm_server_manager.global_load_balancer]
        ray.get([helper.__ray_ready__.remote() for helper in helpers])
        groups = self.worker_handles()
        ray.get([server.__ray_call__.remote(count_requests) for server in self._vllm_servers(groups)])
        self.usage = Usage(self._members(groups))
        self.usage.ask()

    def seconds_scored(self) -> float:
        """How long a reward model on a pool of its own has been scoring since the last time this was asked."""
        workers = self.reward_loop_manager.reward_loop_workers
        return max(ray.get([worker.take_busy_seconds.remote() for worker in workers]), default=0.0)

    def _vllm_servers(self, groups: dict[str, list[Any]]) -> dict[Any, str]:
        """Names of the vLLM servers: `server-N` of the rollout, `reward-server-N` of a reward model."""
        named = (
            ("RolloutServer", "server", self.config.actor_rollout_ref.rollout),
            ("RewardModel", "reward-server", self.config.reward.reward_model.rollout),
        )
        return {
            server: f"{name}-{number}"
            for role, name, rollout in named
            if groups.get(role) and rollout.name == "vllm"  # the name is missing where there is no such role
            for number, server in enumerate(groups[role])
        }

    def _members(self, groups: dict[str, list[Any]]) -> list[Member]:
        """The workers of each pool. A rank is one process, however many roles it has."""
        pools, on_cpu = self.pools, self.config.trainer.device == "cpu"
        ranks: dict[str, dict[Any, Any]] = {}
        for role, pool in {"ActorRollout": pools.actor, "RefPolicy": pools.ref, "Critic": pools.critic}.items():
            ranks.setdefault(pool, {}).update({worker._actor_id: worker for worker in groups.get(role, ())})
        members = [
            Member(pool, f"rank-{number}", worker, sample_rank)
            for pool, workers in ranks.items()
            for number, worker in enumerate(workers.values())
        ]
        for server, name in self._vllm_servers(groups).items():
            pool = pools.actor if name.startswith("server") else pools.reward
            # A server shares its GPUs with the ranks beside it, which tell of the whole device.
            sample = sample_server if on_cpu or not ranks.get(pool) else sample_server_beside_ranks
            members.append(Member(pool, name, server, sample))
        return members

    def worker_handles(self) -> dict[str, list[Any]]:
        """Ray actors of each role, in rank order."""
        groups = {"ActorRollout": self.actor_rollout_wg.workers}
        if self.use_critic:
            groups["Critic"] = self.critic_wg.workers
        if Role.RefPolicy in self.mapping:
            groups["RefPolicy"] = self.ref_policy_wg.workers
        elif Role.ActorRolloutRef in self.mapping:
            groups["RefPolicy"] = self.actor_rollout_wg.workers
        servers = [server for replica in self.llm_server_manager.get_replicas() for server in replica.servers]
        groups["RolloutServer"] = servers
        if self.reward_loop_manager.reward_model_manager is not None:
            replicas = self.reward_loop_manager.reward_model_manager.rollout_replicas
            groups["RewardModel"] = [server for replica in replicas for server in replica.servers]
        return groups
