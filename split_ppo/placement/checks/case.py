"""What a check looks at: the job, its plan, and verl's settings as they will be."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from split_ppo.api.job import SplitPPOJob, SplitPPOJobSpec
from split_ppo.placement.plan import Finding, PlacementPlan, RoleName
from split_ppo.verl_config import lookup


@dataclass(frozen=True)
class Setting:
    """A number that will reach verl, and the field a user changes it in."""

    value: int
    field: str


@dataclass(frozen=True)
class Case:
    job: SplitPPOJob
    plan: PlacementPlan
    settings: dict[str, Any]

    @property
    def spec(self) -> SplitPPOJobSpec:
        return self.job.spec

    @property
    def placed(self) -> bool:
        """Every role has a pool that exists; without that there is nothing to divide by."""
        declared = {p.name for p in self.plan.pools}
        return bool(self.plan.roles) and set(self.plan.roles.values()) <= declared

    def number(self, path: str, field: str) -> Setting | None:
        """A whole number of verl's settings, named by `config` where the user overrode the field there."""
        overridden = lookup(self.spec.training.config, path) is not None
        value = lookup(self.settings, path)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return None
        return Setting(value, f"training.config.{path}" if overridden else field)

    def setting(self, path: str) -> Any:
        return lookup(self.settings, path)

    @property
    def has_critic(self) -> bool:
        enabled = self.setting("critic.enable")
        return bool(enabled) if enabled is not None else self.setting("algorithm.adv_estimator") == "gae"

    @property
    def has_reference(self) -> bool:
        return bool(self.setting("algorithm.use_kl_in_reward") or self.setting("actor_rollout_ref.actor.use_kl_loss"))

    @property
    def has_reward_model(self) -> bool:
        return bool(self.setting("reward.reward_model.enable"))

    def used_roles(self) -> list[RoleName]:
        used: list[RoleName] = ["ActorRollout"]
        used += ["RefPolicy"] if self.has_reference else []
        used += ["Critic"] if self.has_critic else []
        used += ["RewardModel"] if self.has_reward_model else []
        return used

    def data_parallel_size(self, role: RoleName) -> int:
        """Ranks that share a batch: the pool's GPUs, less what sequence parallelism joins."""
        section = {"Critic": "critic", "RefPolicy": "actor_rollout_ref.ref"}.get(role, "actor_rollout_ref.actor")
        joined = self.number(f"{section}.ulysses_sequence_parallel_size", "")
        if joined is None and role == "RefPolicy":
            joined = self.number("actor_rollout_ref.actor.ulysses_sequence_parallel_size", "")
        return max(self.plan.pool_of(role).world_size // (joined.value if joined else 1), 1)


Check = Callable[[Case], Iterator[Finding]]


def finding(reason: str, field: str, message: str) -> Finding:
    return Finding(reason=reason, field=f"spec.{field}" if not field.startswith("metadata") else field, message=message)
