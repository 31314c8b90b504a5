"""verl's roles -> pools of the plan -> worker classes.

    ActorRollout      the actor and its rollout, no reference policy anywhere
    ActorRolloutRef   the same with the reference policy inside, when both are on one pool
    Actor + RefPolicy the actor (its rollout put back by ActorRolloutWorker) and a reference policy on another pool
    Critic, RewardModel

Which roles exist follows from verl's config; where they go follows from the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from verl.trainer.ppo.utils import Role

from split_ppo.api.placement_spec import PoolName
from split_ppo.placement.plan import RoleName


@dataclass(frozen=True)
class RolePools:
    """Pool of each role that the plan knows."""

    actor: str
    ref: str
    critic: str
    reward: str

    @classmethod
    def from_plan(cls, roles: Mapping[RoleName, PoolName]) -> "RolePools":
        actor = roles["ActorRollout"]
        critic = roles.get("Critic", actor)
        return cls(
            actor=actor, ref=roles.get("RefPolicy", actor), critic=critic, reward=roles.get("RewardModel", critic)
        )

    @property
    def one_pool(self) -> bool:
        """Actor and critic share their GPUs, so nothing can overlap."""
        return self.actor == self.critic

    @property
    def ref_apart(self) -> bool:
        return self.ref != self.actor

    @property
    def ref_beside_critic(self) -> bool:
        return self.ref_apart and self.ref == self.critic

    @property
    def reward_alone(self) -> bool:
        """The reward model has a pool to itself and may score while others generate and train."""
        return self.reward not in (self.actor, self.critic, self.ref)


def assign_pools(
    pools: RolePools, *, needs_ref: bool, ref_in_actor: bool, critic: bool, reward: bool
) -> dict[Role, str]:
    """Role -> pool, for the roles this run has. With LoRA the reference policy is the actor without its adapter."""
    separate_ref = needs_ref and not ref_in_actor
    if separate_ref and pools.ref_apart:
        assigned = {Role.Actor: pools.actor, Role.RefPolicy: pools.ref}
    elif separate_ref:
        assigned = {Role.ActorRolloutRef: pools.actor}
    else:
        assigned = {Role.ActorRollout: pools.actor}
    if critic:
        assigned[Role.Critic] = pools.critic
    if reward:
        assigned[Role.RewardModel] = pools.reward
    return assigned


def worker_classes(roles: Mapping[Role, str], device: str) -> dict[Role, Any]:
    """Ray actor classes of the roles that are workers; a reward model is a server of its own."""
    if device == "cpu":
        from split_ppo_trainer.cpu.workers import CpuActorRolloutWorker as Actor
        from split_ppo_trainer.cpu.workers import CpuCriticWorker as Critic
        from split_ppo_trainer.cpu.workers import CpuReferenceWorker as Reference
    else:
        from split_ppo_trainer.workers import ActorRolloutWorker as Actor
        from split_ppo_trainer.workers import CriticWorker as Critic
        from split_ppo_trainer.workers import ReferenceWorker as Reference
    by_role = {Role.Actor: Actor, Role.ActorRollout: Actor, Role.ActorRolloutRef: Actor}
    by_role |= {Role.RefPolicy: Reference, Role.Critic: Critic}
    return {role: ray.remote(by_role[role]) for role in roles if role in by_role}
