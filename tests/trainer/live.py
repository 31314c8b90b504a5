"""A trainer that stays up while tests ask it things: one start-up, many assertions.

The session runs where the product runs it, in an actor on the head node of a real Ray cluster, built by the product's
own `Session`. Tests call it from outside; each `fit` starts from the same saved weights, so runs can be compared.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusters import LocalCluster, training_cluster

from split_ppo.placement.exchange import Machine
from split_ppo.runplan import RunPlan
from split_ppo_trainer.checkpoints import Checkpoints
from split_ppo_trainer.driver import checkpoint_ranks, job_environment
from split_ppo_trainer.failures import explain
from split_ppo_trainer.progress import Progress, StepReport
from split_ppo_trainer.run import Run
from split_ppo_trainer.watchdog import Roll, Watchdog


class Memory:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.metrics: dict[int, dict[str, Any]] = {}

    def event(self, event: Mapping[str, Any]) -> None:
        self.events.append(dict(event))

    def step(self, report: StepReport) -> None:
        self.metrics[report.step] = {k: float(v) for k, v in report.metrics.items() if isinstance(v, int | float)}

    def close(self) -> None:
        """Nothing to do."""


class LiveTrainer:
    """In the actor: the product's session, and what the tests want of it."""

    def __init__(self, plan_json: str, folder: str) -> None:
        from split_ppo_trainer.session import Session

        self._plan, self._folder = RunPlan.model_validate_json(plan_json), Path(folder)
        self._memory = Memory()
        watchdog = Watchdog(look=lambda: Roll({}, {}), bark=lambda failure: None)
        self._checkpoints = self._store("start")
        self._session = Session(Run(self._plan, Progress([self._memory]), watchdog, self._checkpoints), None)

    def build(self) -> None:
        """Start everything and save the weights every fit starts from."""
        self._session.build()
        self._session.trainer._save_checkpoint()
        self._checkpoints.commit()  # a trainer does so when it has reported the step

    def fit(self, name: str, *, level: str = "None", steps: int, save: bool = False) -> dict[str, Any]:
        """Train from the first weights at this level; metrics by step, or the failure it ended with."""
        from split_ppo_trainer.overlap import Overlap, Turns

        trainer = self._session.trainer
        trainer._turns = Turns((Overlap.parse(level),))
        trainer.total_training_steps = steps
        self._rewind(trainer)
        self._memory.__init__()  # type: ignore[misc]
        self._swap_store(self._store(name))
        trainer.config.trainer.save_freq = steps if save else -1
        try:
            trainer.fit(self._session.agent_loop_manager)
        except Exception as problem:
            try:
                failure = explain(self._session._rollout_failure(problem) or problem)  # type: ignore[arg-type]
            except Exception:
                failure = explain(problem)
            return {"reason": failure.reason, "message": failure.message, "metrics": self._memory.metrics}
        return {"reason": None, "metrics": self._memory.metrics, "events": self._memory.events}

    def placement(self) -> dict[str, Any]:
        from split_ppo_trainer import census

        trainer, pools = self._session.trainer, self._plan.placement.pools
        groups = trainer.worker_handles()
        known = [handle for handles in groups.values() for handle in handles]
        return {"workers": census.places(groups, pools), "helpers": census.helper_places(known, pools)}

    def unit_sizes(self) -> dict[str, list[int]]:
        trainer = self._session.trainer
        return {"actor": trainer.actor_rollout_wg.unit_sizes()[0], "critic": trainer.critic_wg.unit_sizes()[0]}

    def machine(self) -> Machine:
        from split_ppo_trainer.cpu.machine import look_at_the_machine

        trainer = self._session.trainer
        return look_at_the_machine({"ActorRollout": trainer.actor_rollout_wg, "Critic": trainer.critic_wg})

    def config(self, path: str) -> Any:
        from omegaconf import OmegaConf

        return OmegaConf.select(self._session.config, path)

    def pid_of_critic(self) -> int:
        import ray

        return int(ray.get(self._session.trainer.critic_wg.workers[0].__ray_call__.remote(lambda _: os.getpid())))

    def _rewind(self, trainer: Any) -> None:
        import transfer_queue as tq

        for partition, items in (tq.kv_list() or {}).items():
            if items:
                tq.kv_clear(keys=list(items), partition_id=partition)
        trainer.config.trainer.resume_mode = "resume_path"
        trainer.config.trainer.resume_from_path = str(self._folder / "start" / "global_step_0")
        trainer._load_checkpoint()
        trainer._open_lane()  # a fit that failed leaves calls behind
        trainer.train_dataloader_it = None
        trainer._prompt_order.clear()
        trainer._init_dump_executor()
        trainer.checkpoint_manager.update_weights(0)

    def _store(self, name: str) -> Checkpoints:
        return Checkpoints(self._folder / name, keep=2, ranks=checkpoint_ranks(self._plan))

    def _swap_store(self, store: Checkpoints) -> None:
        trainer = self._session.trainer
        run = trainer.run
        trainer.run = Run(run.plan, run.progress, run.watchdog, store)


class Remote:
    """Calls to the actor, from a test."""

    def __init__(self, actor: Any, cluster: LocalCluster, folder: Path, plan: RunPlan) -> None:
        self._actor, self.cluster, self.folder, self.plan = actor, cluster, folder, plan

    def __getattr__(self, name: str) -> Any:
        import ray

        return lambda *args, **kwargs: ray.get(getattr(self._actor, name).remote(*args, **kwargs))


@contextmanager
def live_trainer(plan: RunPlan, folder: Path) -> Iterator[Remote]:
    """A cluster as the plan wants it and a built trainer in it."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    with training_cluster(plan) as cluster:
        ray.init(address=cluster.address, runtime_env={"env_vars": job_environment(plan, os.environ)})
        try:
            here = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
            actor = (
                ray.remote(LiveTrainer)
                .options(num_cpus=0, scheduling_strategy=here)
                .remote(plan.to_json(), str(folder))
            )
            remote = Remote(actor, cluster, folder, plan)
            remote.build()
            yield remote
        finally:
            ray.shutdown()
