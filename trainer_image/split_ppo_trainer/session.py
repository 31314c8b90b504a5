"""One training session, in the task runner's process on the head node: builds the run, hands it to verl, tells how it
ended.

The driver knows nothing of verl (importing it takes eight seconds that the task runner spends anyway); this module is
what the task runner imports.
"""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import OmegaConf
from verl.utils.logging_utils import configure_verl_logging

from split_ppo.placement.splits import split_name
from split_ppo.runplan import RunPlan
from split_ppo_trainer import census
from split_ppo_trainer.checkpoints import Checkpoint, Checkpoints, for_ranks
from split_ppo_trainer.config import check, compose
from split_ppo_trainer.failures import EXIT_MOVED, RunFailure, explain
from split_ppo_trainer.kubernetes_status import KubernetesStatus
from split_ppo_trainer.progress import NEXT_PLAN, JsonlFiles, Progress, RayMetrics, Sink
from split_ppo_trainer.recommendation import Mover, Recommender, SplitMove, balance_status
from split_ppo_trainer.run import Run
from split_ppo_trainer.watchdog import LIMITS, Watchdog

BARKED = 70  # exit status of a task runner that its watchdog ended


@dataclass(frozen=True)
class Outcome:
    """How the session ended, for the driver."""

    reason: str | None = None
    message: str | None = None
    exit_code: int = 0


class Session:
    """What verl's task runner does, with the split trainer, and in an order that leaves no core idle at start-up."""

    def __init__(self, run: Run, resume_from: Checkpoint | None) -> None:
        self._run, self._resume_from = run, resume_from
        self.config = self._compose()
        self.trainer: Any = None
        self.agent_loop_manager: Any = None

    def train(self) -> None:
        """From nothing to the last step."""
        try:
            self.build()
            self.trainer.fit(self.agent_loop_manager)
        except Exception as problem:
            if hasattr(self.trainer, "_logger"):
                self.trainer.logger.finish(exit_code=1)
            failure = self._rollout_failure(problem)
            if failure is None:
                raise
            raise failure from problem
        self._run.watchdog.stop()
        self.trainer.logger.finish(exit_code=0)
        tq.close()

    def build(self) -> None:
        """Queue, workers, rollout servers, agent loops."""
        self._run.watchdog.enter("workers", "the data queue to start")
        queue = Background(lambda: tq.init(self.config.transfer_queue))
        configure_verl_logging()
        from split_ppo_trainer.rollout import PinnedAgentLoopManager
        from split_ppo_trainer.trainer import SplitTrainer

        queue.join()
        self.trainer = SplitTrainer(config=self.config, run=self._run)
        self.trainer.init()
        self._run.watchdog.enter("rollout", "the agent loops to start")
        self.agent_loop_manager = PinnedAgentLoopManager(
            config=self.config,
            llm_client=self.trainer.get_llm_client(),
            teacher_client=self.trainer.get_teacher_client(),
            reward_loop_worker_handles=self.trainer.get_reward_handles(),
            workers=self.trainer.agent_workers,
        )
        self.trainer.wait_for_helpers()

    def _compose(self) -> Any:
        """The config, checked pool by pool."""
        config = compose(self._run.plan)
        config.transfer_queue.enable = True
        if self._resume_from is not None:
            config.trainer.resume_mode = "resume_path"
            config.trainer.resume_from_path = str(self._resume_from.path)
        OmegaConf.resolve(config)
        check(config, self._run.plan)
        return config

    def _rollout_failure(self, problem: Exception) -> RunFailure | None:
        """verl says only that nothing came back; the agent loops know why."""
        if "no materializable trajectories" not in str(problem):
            return None
        why = self.agent_loop_manager.first_failure() or "the rollout's log knows why"
        return RunFailure("RolloutFailed", f"Every prompt of step {self.trainer.global_steps} failed: {why}")


class Background:
    """A call on a thread of its own; `join` waits for it and raises what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._problem: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as problem:
            self._problem = problem


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
    mover = Mover.for_plan(plan)
    progress = Progress([*sinks(plan, Path(output)), *([mover] if mover else [])])

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
    watchdog.expect(census.nodes_of_the_pools(plan.placement.pools))
    watchdog.start()
    try:
        if resume_from is not None:
            resume_from = _on_this_split(resume_from, ranks, progress)
        Session(Run(plan, progress, watchdog, checkpoints, mover), resume_from).train()
        outcome = Outcome()
    except SplitMove as move:
        watchdog.stop()
        (Path(output) / NEXT_PLAN).write_text(move.plan.to_json())
        left, to = split_name(plan.placement), split_name(move.plan.placement)
        progress.move(move.step, left, to, move.sentence, balance=balance_status(move.plan))
        outcome = Outcome("Moved", move.sentence, EXIT_MOVED)
    except Exception as problem:
        watchdog.stop()
        failure = explain(problem)
        if failure.reason == "WorkerDied":
            failure = watchdog.cause() or failure
        if not isinstance(problem, RunFailure):
            import traceback

            traceback.print_exc()
        progress.error(failure.reason, failure.message)
        outcome = Outcome(failure.reason, failure.message, failure.exit_code)
    progress.close()
    return asdict(outcome)


def _on_this_split(checkpoint: Checkpoint, ranks: Mapping[str, int], progress: Progress) -> Checkpoint:
    if dict(checkpoint.ranks) != dict(ranks):
        progress.stage("preflight", f"Cutting {checkpoint.path.name} anew: it was written on another split.")
    return for_ranks(checkpoint, ranks)


def sinks(plan: RunPlan, output: Path) -> list[Sink]:
    """Files always, Ray's metrics always, the job's status in a pod that may write it."""
    found: list[Sink] = [JsonlFiles(output), RayMetrics(plan.job.name)]
    status = KubernetesStatus.in_this_pod(
        name=plan.job.name,
        namespace=plan.job.namespace,
        recommender=Recommender.for_plan(plan),
        balance=balance_status(plan),
    )
    return found if status is None else [*found, status]
