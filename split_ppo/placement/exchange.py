"""What ranks without GPUs spend on exchanging parameters, from what two of them took for it once.

FSDP gathers the parameters of a model for every micro batch; an update gathers them again on its way back and then scatters the
gradients. On GPUs that goes on beside the computation. On the CPU it takes the computation's own core, on one machine several
times as long as on another, so the trainer measures it before the first step instead of letting the advice assume it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from split_ppo.placement.plan import RoleName
from split_ppo.verl_config import lookup

# Of each piece: the role whose model it exchanges, where its micro batch and its epochs are set, whether it updates.
_PASSES: tuple[tuple[str, RoleName, str], ...] = (
    ("old_log_prob", "ActorRollout", "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"),
    ("ref", "ActorRollout", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"),
    ("values", "Critic", "critic.ppo_micro_batch_size_per_gpu"),
)
_UPDATES: tuple[tuple[str, RoleName, str], ...] = (
    ("update_actor", "ActorRollout", "actor_rollout_ref.actor"),
    ("update_critic", "Critic", "critic"),
)
_DYNAMIC = ("actor_rollout_ref.actor.use_dynamic_bsz", "critic.use_dynamic_bsz")


class Exchange(NamedTuple):
    """Seconds in which two ranks gather all parameters of a model, and scatter as many gradients."""

    gather: float
    scatter: float


@dataclass(frozen=True)
class Machine:
    """What a run without GPUs tells of the machine of its first rank: its cores, and the exchange of each role's model, where
    there are two ranks to try it."""

    cores: int | None = None
    exchange: Mapping[RoleName, Exchange] = field(default_factory=dict)

    @classmethod
    def newest(cls, events: Iterable[Mapping[str, Any]]) -> "Machine | None":
        """By the last `machine` event."""
        found = None
        for event in events:
            if event["event"] == "machine":
                exchange = {role: Exchange(**seconds) for role, seconds in event["exchange"].items()}
                found = cls(None if event["cores"] is None else int(event["cores"]), exchange)
        return found


def exchange_seconds(known: Mapping[RoleName, Exchange], settings: Mapping[str, Any]) -> dict[str, float]:
    """Of each piece of a step, if two ranks exchanged as often as one rank has micro batches. Nothing where nothing was measured,
    and where verl cuts micro batches by their tokens, so that their number is not known beforehand."""
    if any(lookup(settings, path) for path in _DYNAMIC):
        return {}
    rows = lookup(settings, "data.train_batch_size") * (lookup(settings, "actor_rollout_ref.rollout.n") or 1)
    found = {}
    for piece, role, micro in _PASSES:
        if role in known and (size := lookup(settings, micro)):
            found[piece] = known[role].gather * rows / size
    for piece, role, section in _UPDATES:
        if role in known and (size := lookup(settings, f"{section}.ppo_micro_batch_size_per_gpu")):
            epochs = lookup(settings, f"{section}.ppo_epochs") or 1
            found[piece] = (2 * known[role].gather + known[role].scatter) * rows * epochs / size
    if "ActorRollout" in known:
        found["update_weights"] = known["ActorRollout"].gather
    return found
