"""`spec.placement`: which GPUs there are, how they are cut into pools, and which role sits on which pool."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from split_ppo.api.base import ApiModel, Quantity, schema_extra
from split_ppo.api.pods import FreeForm, NodeSelector, Toleration

PoolName = Literal["actor", "critic", "reward"]
POOL_NAMES: tuple[PoolName, ...] = get_args(PoolName)
Mode = Literal["Split", "Colocated"]
Device = Literal["GPU", "CPU"]
Layout = Literal["WithinNodes", "AcrossNodes", "Auto"]


class PodShape(ApiModel):
    """What the pods of a pool look like."""

    gpu_resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)] = "nvidia.com/gpu"
    """Kubernetes' name of the GPU: `nvidia.com/gpu`, `amd.com/gpu`, a MIG profile."""
    cpus_per_gpu: Annotated[int, Field(alias="cpusPerGPU", ge=1, le=256)] = 4
    """CPUs of a pod for each of its GPUs, and one more for the pod itself. verl reserves 3 per GPU: less can never start."""
    memory: Quantity | None = None
    """Memory of each pod, request and limit. None leaves it to the namespace's defaults."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which Ray and NCCL use. None lets it grow up to the pod's memory."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Labels the nodes must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints the pods accept."""
    pod_template: FreeForm = Field(default_factory=dict)
    """A Kubernetes pod template merged over what the operator makes, last: the way to anything not listed here. Containers,
    volumes and env are merged by name; the Ray container is called `ray`. The operator's own labels and annotations stay."""


class Pool(PodShape):
    """A group of nodes that carries one or more roles: one KubeRay worker group, one pod per node."""

    nodes: Annotated[int, Field(ge=1, le=512)] = 1
    """Number of nodes, and so of pods."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    """GPUs on each of them; with device CPU: slots."""
    resource: (
        Annotated[
            str,
            Field(
                pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$",
                max_length=63,
                json_schema_extra={
                    "x-kubernetes-validations": [
                        {
                            "rule": "!self.lowerAscii().endsWith('gpu')",
                            "message": "KubeRay takes every resource whose name ends in gpu for GPUs: "
                            "choose another name, such as actor_pool",
                        }
                    ]
                },
            ),
        ]
        | None
    ) = None
    """Ray's custom resource that marks the nodes of this pool. Default: the pool's name and `_pool`."""


class Total(PodShape):
    """GPUs to be cut into an actor pool and a critic pool for you."""

    nodes: Annotated[int, Field(ge=1, le=512)] = 1
    """Number of nodes."""
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    """GPUs on each of them; with device CPU: slots."""


class Pools(ApiModel):
    """The pools, by name."""

    actor: Pool | None = None
    """Policy and rollout engine, and by default the reference policy."""
    critic: Pool | None = None
    """Value model, and by default the reward model."""
    reward: Pool | None = None
    """A third pool for the reward model."""


class Roles(ApiModel):
    """Which pool each role sits on. What is left out goes where it usually does."""

    actor_rollout: PoolName | None = None
    """Policy and rollout engine, which share their GPUs. Default: actor."""
    ref_policy: PoolName | None = None
    """Reference policy. Default: actor, inside the policy's own workers."""
    critic: PoolName | None = None
    """Value model. Default: critic; Colocated: actor."""
    reward_model: PoolName | None = None
    """Reward model. Default: the reward pool if there is one, else critic; Colocated: actor."""


class Head(ApiModel):
    """The Ray head pod: it runs the driver and holds no GPU."""

    cpus: Annotated[int, Field(ge=1, le=256)] = 8
    """CPUs of the head pod, request and limit; with device CPU only what Ray is told."""
    memory: Quantity | None = None
    """Memory of the head pod, request and limit. None leaves it to the namespace's defaults."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Labels the head's node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    """Taints the head pod accepts."""
    pod_template: FreeForm = Field(default_factory=dict)
    """A Kubernetes pod template merged over the head pod's, last; the operator's own labels and annotations stay."""


class Placement(ApiModel):
    """Which GPUs the actor gets, which the critic gets."""

    model_config = schema_extra(
        (
            "has(self.pools) != has(self.total)",
            "give either pools or total: pools says who gets what, total is split for you",
        ),
        (
            "self.mode != 'Split' || !has(self.pools) || (has(self.pools.actor) && has(self.pools.critic))",
            "Split needs both pools.actor and pools.critic; with one pool use mode: Colocated",
        ),
        (
            "self.mode != 'Colocated' || !has(self.pools)"
            " || (has(self.pools.actor) && !has(self.pools.critic) && !has(self.pools.reward))",
            "Colocated puts every role on one pool: declare pools.actor alone, or total",
        ),
        ("!has(self.actorFraction) || has(self.total)", "actorFraction says how total is cut: it needs total"),
        (
            "self.mode != 'Split' || !has(self.roles) || ["
            "has(self.roles.actorRollout) ? self.roles.actorRollout : 'actor',"
            "has(self.roles.refPolicy) ? self.roles.refPolicy : 'actor',"
            "has(self.roles.critic) ? self.roles.critic : 'critic',"
            "has(self.roles.rewardModel) ? self.roles.rewardModel : 'critic'"
            "].all(p, p != 'reward' || (has(self.pools) && has(self.pools.reward)))",
            "a role names the pool reward, which is not declared: add pools.reward or use actor or critic",
        ),
        (
            "self.mode != 'Colocated' || !has(self.roles) || ["
            "has(self.roles.actorRollout) ? self.roles.actorRollout : 'actor',"
            "has(self.roles.refPolicy) ? self.roles.refPolicy : 'actor',"
            "has(self.roles.critic) ? self.roles.critic : 'actor',"
            "has(self.roles.rewardModel) ? self.roles.rewardModel : 'actor'"
            "].all(p, p == 'actor')",
            "Colocated has the one pool actor: every role sits there; leave roles out",
        ),
    )
    mode: Mode = "Split"
    """Split: actor and critic on pools of their own. Colocated: every role on one pool, the baseline to compare with."""
    device: Device = "GPU"
    """GPU, or CPU: slots instead of GPUs, for laptops and CI; verl, FSDP and vLLM then run on the CPU."""
    pools: Pools | None = None
    """The pools one by one. Either this or `total`."""
    total: Total | None = None
    """All GPUs together, split for you: half each, an odd one to the actor. Either this or `pools`."""
    actor_fraction: (
        Annotated[str, Field(pattern=r"^([1-9][0-9]{0,5}/[1-9][0-9]{0,5}|0\.[0-9]{1,6})$", max_length=16)] | None
    ) = None
    """The actor's share of `total`, as text: "3/4" or "0.75". Default: half, the odd one to the actor."""
    layout: Layout = "Auto"
    """WithinNodes: every node carries a part of both pools. AcrossNodes: each pool has whole nodes of its own. Both are
    requirements. Auto: WithinNodes on one node and AcrossNodes on more, as a preference."""
    roles: Roles = Field(default_factory=Roles)
    """Which pool each role sits on."""
    head: Head = Field(default_factory=Head)
    """The Ray head pod."""
