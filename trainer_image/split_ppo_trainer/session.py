"""One training session, in the task runner's process on the head node: builds the run, hands it to verl, tells how it
ended.

The driver knows nothing of verl (importing it takes eight seconds that the task runner spends anyway); this module is
what the task runner imports.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.main_ppo import TaskRunnerV1
from verl.utils.logging_utils import configure_verl_logging

from split_ppo.runplan import RunPlan
from split_ppo_trainer import census
from split_ppo_trainer.checkpoints import Checkpoint, Checkpoints
from split_ppo_trainer.config import check, compose
from split_ppo_trainer.failures import RunFailure, explain
from split_ppo_trainer.kubernetes_status import KubernetesStatus
from split_ppo_trainer.progress import JsonlFiles, Progress, RayMetrics, Sink
from split_ppo_trainer.run import Run
from split_ppo_trainer.trainer import SplitTrainer
from split_ppo_trainer.watchdog import LIMITS, Watchdog

BARKED = 70  # exit status of a task runner that its watchdog ended


@dataclass(frozen=True)
class Outcome:
    """How the session ended, for the driver."""

    reason: str | None = None
    message: str | None = None
    exit_code: int = 0


class Session(TaskRunnerV1.__ray_actor_class__):  # type: ignore[misc]
    """verl's task runner with the split trainer."""

    def __init__(self, run: Run, resume_from: Checkpoint | None) -> None:
        super().__init__()
        self._run, self._resume_from = run, resume_from

    def train(self) -> None:
        """From config to the last step. verl's own `run` with our trainer and a config of our own making."""
        self.prepare()
        try:
            self.build()
            self.trainer.fit(self.agent_loop_manager)
            self._run.watchdog.stop()
        except RuntimeError as problem:
            failure = self._rollout_failure(problem)
            if failure is None:
                raise
            raise failure from problem
        finally:
            self.close()

    def prepare(self) -> None:
        """The config, checked pool by pool."""
        configure_verl_logging()
        self.config = compose(self._run.plan)
        self.config.transfer_queue.enable = True
        if self._resume_from is not None:
            self.config.trainer.resume_mode = "resume_path"
            self.config.trainer.resume_from_path = str(self._resume_from.path)
        OmegaConf.resolve(self.config)
        check(self.config, self._run.plan)

    def build(self) -> None:
        """Queue, workers, rollout servers, agent loops."""
        self._run.watchdog.enter("workers", "the data queue to start")
        tq.init(self.config.transfer_queue)
        self.trainer = SplitTrainer(config=self.config, run=self._run)
        self.trainer.init()
        self.init_agent_loop_manager()

    def close(self) -> None:
        tracking = getattr(self.trainer, "logger", None) if hasattr(self.trainer, "_logger") else None
        try:
            if tracking is not None:
                tracking.finish(exit_code=0)
        finally:
            tq.close()

    def _rollout_failure(self, problem: RuntimeError) -> RunFailure | None:
        """verl says only that nothing came back; the agent loops know why."""
        if "no materializable trajectories" not in str(problem):
            return None
        why = self.agent_loop_manager.first_failure() or "the rollout's log knows why"
        return RunFailure("RolloutFailed", f"Every prompt of step {self.trainer.global_steps} failed: {why}")


def train(
    plan_json: str,
    *,
    output: str,
    resume_from: Checkpoint | None,
    ranks: Mapping[str, int],
    stall_seconds: float | None,
) -> dict[str, Any]:
    """Run the plan; never raises. The error is told to the sinks here and to the driver by what is returned."""
    plan = RunPlan.model_validate_json(plan_json)
    progress = Progress(sinks(plan, Path(output)))

    def bark(failure: RunFailure) -> None:
        progress.error(failure.reason, failure.message)
        progress.close()
        os._exit(BARKED)  # the main thread waits inside Ray and cannot be woken

    limits = LIMITS if stall_seconds is None else dict.fromkeys(LIMITS, stall_seconds)
    watchdog = Watchdog(look=census.present, bark=bark, limits=limits)
    checkpoints = None
    if plan.storage.path:
        checkpoints = Checkpoints(Path(plan.storage.path), keep=plan.storage.keep, ranks=ranks)
        checkpoints.newest = resume_from
    watchdog.start()
    try:
        Session(Run(plan, progress, watchdog, checkpoints), resume_from).train()
        outcome = Outcome()
    except Exception as problem:
        watchdog.stop()
        failure = explain(problem)
        if not isinstance(problem, RunFailure):
            import traceback

            traceback.print_exc()
        progress.error(failure.reason, failure.message)
        outcome = Outcome(failure.reason, failure.message, failure.exit_code)
    progress.close()
    return asdict(outcome)


def sinks(plan: RunPlan, output: Path) -> list[Sink]:
    """Files always, Ray's metrics always, the job's status in a pod that may write it."""
    found: list[Sink] = [JsonlFiles(output), RayMetrics(plan.job.name)]
    status = KubernetesStatus.in_this_pod(name=plan.job.name, namespace=plan.job.namespace)
    return found if status is None else [*found, status]
