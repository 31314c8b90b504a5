"""Agent-loop and reward-loop workers where they belong, and requests that can be repeated.

verl spreads its helper actors over every node that has a CPU, so the loss of any node, of whatever pool, can hang a
run. Here they live on the nodes of the actor's pool, beside the rollout they serve.

vLLM's sampler depends on the replica and on what was sampled before. A seed in each request, made from the run's seed,
the step and the prompt, makes a response depend on nothing else: levels and layouts can be compared, and a resumed run
continues the same curve. It costs throughput on GPUs (vLLM samples seeded requests one by one), so only runs on the CPU
ask for it.
"""

import hashlib
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, _agent_loop_registry
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.utils.rollout_trace import RolloutTraceConfig

from split_ppo_trainer.busy import BusyClock
from split_ppo_trainer.census import nodes_of
from split_ppo_trainer.failures import first_line


def request_seed(seed: int, *, step: int, prompt: Any, session: int, validate: bool) -> int:
    """A seed for one request that depends on nothing but what it is for."""
    text = f"{seed}/{step}/{prompt}/{session}/{validate}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") >> 1


def is_verls_own(agent: str) -> bool:
    """Under this name is verl's agent of a single turn, not one that a user has put there."""
    own = f"{SingleTurnAgentLoop.__module__}.{SingleTurnAgentLoop.__qualname__}"
    return bool(_agent_loop_registry.get(agent, {}).get("_target_") == own)


class SeededAgentLoopWorker(AgentLoopWorkerTQ.__ray_actor_class__):  # type: ignore[misc]
    """verl's worker; seeds requests where asked, keeps verl's own agent, and remembers the first thing that went wrong.

    It starts empty and is connected when the rollout servers are up: importing verl takes as long as they do.
    """

    def __init__(self) -> None:
        self._first_failure: str | None = None
        self._one_turn: SingleTurnAgentLoop | None = None

    def connect(self, config: Any, llm_client: Any, teacher_client: Any, reward_loop_worker_handles: Any) -> None:
        """What verl's worker does when it is made."""
        super().__init__(config, llm_client, teacher_client, reward_loop_worker_handles)

    async def _run_agent_loop(self, sampling_params: dict[str, Any], trajectory: dict[str, Any], **kwargs: Any) -> Any:
        if self.config.trainer.v1.split.seeded_rollout:
            seed = request_seed(
                self.config.data.seed,
                step=int(trajectory["step"]),
                prompt=trajectory["sample_index"],
                session=int(kwargs.get("session_id", 0)),
                validate=bool(trajectory["validate"]),
            )
            sampling_params = {**sampling_params, "seed": seed}
        try:
            if is_verls_own(kwargs["agent_name"]) and RolloutTraceConfig.get_backend() is None:
                return await self._take_one_turn(sampling_params, trajectory, **kwargs)
            return await super()._run_agent_loop(sampling_params, trajectory, **kwargs)
        except Exception as problem:
            if self._first_failure is None:
                root: BaseException = problem
                while isinstance(getattr(root, "cause", None), BaseException):
                    root = root.cause  # type: ignore[attr-defined]
                self._first_failure = f"{type(root).__name__}: {first_line(root)}"
            raise

    async def _take_one_turn(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool,
        **prompt: Any,
    ) -> Any:
        """What verl's method does for this agent, which keeps nothing of a prompt. verl makes one for every prompt, through
        hydra: milliseconds each, one after the other, before the last prompt is sent."""
        if self._one_turn is None:
            self._one_turn = SingleTurnAgentLoop(
                trainer_config=DictConfigWrap(self.config),
                server_manager=self.llm_client,
                tokenizer=self.tokenizer,
                processor=self.processor,
                hf_model_type=self.hf_model_type,
                dataset_cls=self.dataset_cls,
                data_config=DictConfigWrap(self.config.data),
            )
        output = await self._one_turn.run(sampling_params, **prompt)
        return await self._agent_loop_postprocess(output, trajectory["validate"], **prompt)

    def first_failure(self) -> str | None:
        """Why a prompt failed: verl writes it to this worker's log and trains on without the prompt."""
        return self._first_failure


class PinnedAgentLoopManager(AgentLoopManagerTQ):  # type: ignore[misc]
    """Agent-loop workers that are there already, on the nodes of the actor's pool."""

    def __init__(self, *args: Any, workers: list[Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers = workers
        arguments = (self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles)
        ray.get([worker.connect.remote(*arguments) for worker in workers])

    def first_failure(self) -> str | None:
        """The first failure any worker remembers."""
        answers = ray.get([worker.first_failure.remote() for worker in self.agent_loop_workers])
        return next((answer for answer in answers if answer), None)


def start_agent_workers(*, count: int, resource: str) -> list[Any]:
    """Agent-loop workers on the nodes of the actor's pool, importing."""
    actor_class = ray.remote(SeededAgentLoopWorker)
    return [
        actor_class.options(name=f"agent_loop_worker_{rank}", **where).remote()
        for rank, where in enumerate(pinned(resource, count))
    ]


class ScoringWorker(RewardLoopWorker):  # type: ignore[misc]
    """verl's reward-loop worker, with the field that verl's agent loop reads from every score: a reward model's has none.

    It also knows how long anything was being scored: the driver does not wait for scores, so it cannot tell.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock, self._told = BusyClock(), 0.0

    async def compute_score(self, data: Any) -> dict[str, Any]:
        with self._clock.working():
            return {"reward_extra_info": {}, **await super().compute_score(data)}

    async def take_busy_seconds(self) -> float:
        """Seconds with a score under way, since the last call."""
        before, self._told = self._told, self._clock.seconds()
        return self._told - before


def start_reward_workers(config: Any, *, count: int, resource: str, router_address: str | None) -> list[Any]:
    """verl's reward-loop workers on the nodes of the actor's pool."""
    actor_class = ray.remote(ScoringWorker)
    return [
        actor_class.options(name=f"reward_loop_worker_{rank}", **where).remote(config, router_address)
        for rank, where in enumerate(pinned(resource, count))
    ]


def pinned(resource: str, count: int) -> list[dict[str, Any]]:
    """Actor options that put `count` helpers on the nodes of a pool, in turn. They ask for no CPU: the pool's are spoken for."""
    nodes = nodes_of(resource)
    return [
        {
            "num_cpus": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=nodes[rank % len(nodes)], soft=False),
        }
        for rank in range(count)
    ]
