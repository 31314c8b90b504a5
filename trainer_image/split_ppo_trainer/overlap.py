"""How much of a step's critic half runs beside its actor half, and what that could gain at most.

    None             verl's order, one piece after the other
    Update           update_critic beside update_actor
    Inference        and values beside old_log_prob and ref
    NextGeneration   and update_critic runs on behind weight sync and the next generation

Each level includes the one before. All give the same numbers: the critic's weights are next read by `values` of the
following step, and the critic's worker runs its calls in order, so those wait for the update wherever it was started.

The shortest step with pieces of these lengths, whatever the level (it is what there is to reach):

    prep  = max(old_log_prob + ref, values + reward)         ref and reward on the side of the pool they run on
    limit = max(gen + prep + update_actor + update_weights, prep + update_critic)

`overlap_efficiency` is limit ÷ measured step. With every role on one pool nothing can overlap and the limit is the sum.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Overlap(enum.IntEnum):
    """The levels, in order."""

    NONE = 0
    UPDATE = 1
    INFERENCE = 2
    NEXT_GENERATION = 3

    @classmethod
    def parse(cls, name: str) -> "Overlap":
        """From the API's spelling: None, Update, Inference, NextGeneration."""
        spelled = {"None": cls.NONE, "Update": cls.UPDATE, "Inference": cls.INFERENCE}
        spelled["NextGeneration"] = cls.NEXT_GENERATION
        if name not in spelled:
            raise ValueError(f"overlap is {name!r}; it is one of {', '.join(spelled)}.")
        return spelled[name]


TURNS = "SPLIT_PPO_OVERLAP_TURNS"


@dataclass(frozen=True)
class Turns:
    """The level of each step: one for all, or, to compare levels within one run, several in turn for so many steps each."""

    levels: tuple[Overlap, ...]
    steps: int = 1

    @classmethod
    def of(cls, level: str, environment: Mapping[str, str]) -> "Turns":
        """The plan's level, unless the environment names turns: `None,Update,NextGeneration:4`."""
        names, _, steps = environment.get(TURNS, level).partition(":")
        return cls(tuple(Overlap.parse(name) for name in names.split(",")), int(steps or 1))

    def at(self, step: int) -> Overlap:
        return self.levels[(step - 1) // self.steps % len(self.levels)]


def step_limit(
    seconds: Mapping[str, float],
    *,
    one_pool: bool = False,
    ref_beside_critic: bool = False,
    reward_beside_critic: bool = False,
) -> float:
    """Seconds the step cannot go under with pieces of these lengths (`timing_s` names without the prefix)."""

    def of(*names: str) -> float:
        return sum(seconds.get(name, 0.0) for name in names)

    if one_pool:
        return of("gen", "reward", "old_log_prob", "ref", "values", "update_actor", "update_critic", "update_weights")
    actor_prep, critic_prep = of("old_log_prob"), of("values")
    if ref_beside_critic:
        critic_prep += of("ref")
    else:
        actor_prep += of("ref")
    if reward_beside_critic:
        critic_prep += of("reward")
    prep = max(actor_prep, critic_prep)
    return max(of("gen", "update_actor", "update_weights") + prep, prep + of("update_critic"))


def overlap_efficiency(
    seconds: Mapping[str, float],
    *,
    one_pool: bool = False,
    ref_beside_critic: bool = False,
    reward_beside_critic: bool = False,
) -> float:
    """Limit ÷ measured, 1 at best. Writing a checkpoint is not part of the step."""
    measured = seconds.get("step", 0.0) - seconds.get("save_checkpoint", 0.0)
    if measured <= 0:
        return 0.0
    limit = step_limit(
        seconds, one_pool=one_pool, ref_beside_critic=ref_beside_critic, reward_beside_critic=reward_beside_critic
    )
    return limit / measured
