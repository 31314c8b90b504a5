"""The placement plan: the one thing the CLI draws, the operator builds from and the trainer obeys.

Its JSON is a public contract (`split-ppo plan -o json`, the trainer's plan file): fields are only ever added.

Invariants, kept by the planner and tested as properties: every role has exactly one pool, that pool is in the plan, no GPU is
counted twice, and a pool has the same number of GPUs on each of its nodes (one KubeRay worker group has one pod template).
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from split_ppo.api.placement_spec import Device, Mode, PoolName

RoleName = Literal["ActorRollout", "RefPolicy", "Critic", "RewardModel"]
ConcreteLayout = Literal["WithinNodes", "AcrossNodes"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Frozen):
    """Something wrong with a job: a reason for programs, and a sentence that says what to change."""

    reason: str
    message: str
    field: str


class PoolPlan(_Frozen):
    """A pool: its GPUs node by node, and the Ray resource that marks those nodes."""

    name: PoolName
    resource: str
    gpus: tuple[int, ...]

    @property
    def nodes(self) -> int:
        return len(self.gpus)

    @property
    def gpus_per_node(self) -> int:
        return self.gpus[0]

    @property
    def world_size(self) -> int:
        return sum(self.gpus)


class PlacementPlan(_Frozen):
    """Pools, and the pool of each role. With findings it is what was understood, not what may be started."""

    mode: Mode
    device: Device
    layout: ConcreteLayout
    pools: tuple[PoolPlan, ...]
    roles: dict[RoleName, PoolName]
    findings: tuple[Finding, ...] = ()

    def pool(self, name: str) -> PoolPlan:
        return next(p for p in self.pools if p.name == name)

    def pool_of(self, role: RoleName) -> PoolPlan:
        return self.pool(self.roles[role])

    @property
    def total_gpus(self) -> int:
        return sum(p.world_size for p in self.pools)

    def machines(self) -> tuple[dict[str, int], ...]:
        """The nodes that the plan draws: for each, how many GPUs of which pool."""
        if self.layout == "WithinNodes":
            count = max((p.nodes for p in self.pools), default=0)
            return tuple({p.name: p.gpus[i] for p in self.pools if i < p.nodes} for i in range(count))
        return tuple({p.name: n} for p in self.pools for n in p.gpus)
