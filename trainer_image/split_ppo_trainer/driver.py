"""The driver: checks the inputs, waits for the pools, starts the task runner on the head node and waits for it.

Light on purpose: it imports Ray and nothing of verl. The task runner and everything it starts die with it.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from split_ppo.runplan import RunPlan
from split_ppo.verl_config import lookup
from split_ppo_trainer import preflight, sockets, toy
from split_ppo_trainer.checkpoints import Checkpoint, choose, remove_leftovers
from split_ppo_trainer.cpu.environment import cpu_environment
from split_ppo_trainer.failures import EXIT_POOLS_MISSING, RunFailure, death_cause, first_line
from split_ppo_trainer.inputs import all_models_local, check_inputs
from split_ppo_trainer.progress import JsonlFiles, Progress, keep_metrics_until, last_error
from split_ppo_trainer.room import check_room

STOPPED = ("Stopped", "The run was interrupted; resume it with --resume.")
RUNNER_START_S = 600.0


@dataclass(frozen=True)
class Options:
    """What the command line says besides the plan."""

    output: Path
    resume: str | None
    pools_deadline_s: float
    stall_seconds: float | None
    toys: tuple[Path, ...] = ()
    """Folders of toys that were made here and that every node needs."""


def run(plan: RunPlan, options: Options) -> None:
    """Train; raises RunFailure when that did not work out. The failure has been told to the event log by then."""
    options.output.mkdir(parents=True, exist_ok=True)
    progress = Progress([JsonlFiles(options.output)])
    signal.signal(signal.SIGTERM, _stop)
    ranks = checkpoint_ranks(plan)
    try:
        resume_from = _prepare(plan, options, progress, ranks=ranks)
        _train(plan, options, progress, resume_from=resume_from, ranks=ranks)
    except KeyboardInterrupt:
        progress.error(*STOPPED)
        raise
    finally:
        _disconnect()
    progress.stage("done", f"Trained; everything is in {options.output}.")


def _prepare(plan: RunPlan, options: Options, progress: Progress, *, ranks: Mapping[str, int]) -> Checkpoint | None:
    """Everything that can be refused before verl starts; the checkpoint to start from."""
    root = Path(plan.storage.path) if plan.storage.path else None
    progress.stage("preflight", "Opening the models, the data and the reward.")
    try:
        check_inputs(plan.verl)
        resume_from = choose(root, options.resume or implied_resume(plan), ranks=ranks)
        _connect(plan)
        _await_pools(plan, options, progress)
        spread_toys(options.toys)
        if root is not None:
            remove_leftovers(root)
            check_room(plan.verl, root, critic="critic" in ranks)
    except RunFailure as failure:
        progress.error(failure.reason, failure.message)
        raise
    keep_metrics_until(options.output, 0 if resume_from is None else resume_from.step)
    if resume_from is not None:
        progress.stage("preflight", f"Resuming from {resume_from.path} (step {resume_from.step}).")
    return resume_from


def implied_resume(plan: RunPlan) -> str | None:
    """A later attempt at a job continues the one before, without being told to."""
    return "latest" if plan.job.attempt > 1 and plan.storage.path else None


def checkpoint_ranks(plan: RunPlan) -> dict[str, int]:
    """How many ranks write the actor's and the critic's files."""
    placement = plan.placement
    ranks = {"actor": placement.pool_of("ActorRollout").world_size}
    if "Critic" in placement.roles:
        ranks["critic"] = placement.pool_of("Critic").world_size
    return ranks


def job_environment(plan: RunPlan, current: Mapping[str, str]) -> dict[str, str]:
    """Environment of every process of the run, set before torch or vLLM is imported there: what verl's own entry sets."""
    common = {
        "TRANSFER_QUEUE_ENABLE": "1",
        "TOKENIZERS_PARALLELISM": "true",
        "VLLM_LOGGING_LEVEL": "WARN",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true",
        "VLLM_DISABLE_COMPILE_CACHE": "1",
        "NCCL_DEBUG": "WARN",
    }
    if "megatron" in (lookup(plan.verl, "actor_rollout_ref.actor.strategy"), lookup(plan.verl, "critic.strategy")):
        common["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    if lookup(plan.verl, "actor_rollout_ref.rollout.full_determinism"):
        seed = lookup(plan.verl, "actor_rollout_ref.rollout.seed")
        common |= {"VERL_FULL_DETERMINISM": "1", "VLLM_BATCH_INVARIANT": "1", "PYTHONHASHSEED": str(seed or 42)}
    variables = {name: current.get(name, value) for name, value in common.items()}
    if plan.placement.device == "CPU":
        variables |= cpu_environment(current, offline=all_models_local(plan.verl))
    return variables


def _connect(plan: RunPlan) -> None:
    import ray

    try:
        ray.init(
            address=os.environ.get("RAY_ADDRESS", "auto"),
            runtime_env={
                "env_vars": {**job_environment(plan, os.environ), sockets.PREFIX: sockets.own_prefix(os.environ)}
            },
            log_to_driver=True,
        )
    except (ConnectionError, RuntimeError) as problem:
        first = str(problem).splitlines()[0]
        raise RunFailure(
            "RayNotFound",
            f"There is no Ray cluster to connect to ({first}). Start one, set RAY_ADDRESS, or use `split-ppo run`.",
            exit_code=EXIT_POOLS_MISSING,
        ) from problem


def _disconnect() -> None:
    """Ray forwards its workers' output until then; the last line on stderr is to be ours."""
    import ray

    ray.shutdown()


def _await_pools(plan: RunPlan, options: Options, progress: Progress) -> None:
    def say(lacking: Sequence[preflight.Shortfall]) -> None:
        progress.stage("preflight", "Waiting for the pools. " + " ".join(short.sentence for short in lacking))

    lacking = preflight.wait_for_pools(
        plan.placement, seconds=options.pools_deadline_s, look=preflight.ray_nodes, say=say
    )
    if lacking:
        sentences = " ".join(short.sentence for short in lacking)
        raise RunFailure(
            "PoolsMissing",
            f"The pools were not there within {options.pools_deadline_s:g} s. {sentences}",
            exit_code=EXIT_POOLS_MISSING,
        )
    progress.stage("preflight", "The pools are there: " + ", ".join(_words(plan)) + ".")


def spread_toys(folders: Sequence[Path]) -> None:
    """Make the toys on the nodes that do not see this one's disk. The same name gives the same bytes everywhere."""
    if not folders:
        return
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.util.get_node_ip_address()
    elsewhere = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeManagerAddress"] != here]
    made = [
        ray.remote(toy.make)
        .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False))
        .remote(folder.name, folder.parent)
        for node in elsewhere
        for folder in folders
    ]
    try:
        ray.get(made, timeout=RUNNER_START_S)
    except ray.exceptions.RayError as problem:
        raise RunFailure(
            "ToysFailed", f"The toys could not be made on every node of the pools: {first_line(problem)}"
        ) from problem


def _words(plan: RunPlan) -> list[str]:
    return [f"{pool.name} {'+'.join(map(str, pool.gpus))} ({pool.resource})" for pool in plan.placement.pools]


def _train(
    plan: RunPlan, options: Options, progress: Progress, *, resume_from: Checkpoint | None, ranks: Mapping[str, int]
) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    started = time.time()
    here = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
    runner = ray.remote(TaskRunner).options(num_cpus=0, scheduling_strategy=here).remote()
    try:
        ray.get(runner.ready.remote(), timeout=RUNNER_START_S)
        outcome = ray.get(
            runner.run.remote(
                plan.to_json(),
                output=str(options.output),
                resume_from=resume_from,
                ranks=dict(ranks),
                stall_seconds=options.stall_seconds,
            )
        )
    except ray.exceptions.GetTimeoutError as problem:
        raise _told(
            progress, "RunnerStalled", f"The task runner did not start within {RUNNER_START_S:g} s."
        ) from problem
    except ray.exceptions.RayActorError as problem:
        known = last_error(options.output, since=started)
        if known is not None:
            raise RunFailure(*known) from problem
        raise _told(progress, "RunnerDied", f"The task runner died: {death_cause(str(problem))}") from problem
    if outcome["exit_code"]:
        raise RunFailure(outcome["reason"], outcome["message"], exit_code=outcome["exit_code"])


def _told(progress: Progress, reason: str, message: str) -> RunFailure:
    progress.error(reason, message)
    return RunFailure(reason, message)


def _stop(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


class TaskRunner:
    """The process on the head node in which verl runs."""

    def ready(self) -> bool:
        return True

    def run(self, plan_json: str, **options: Any) -> dict[str, Any]:
        from split_ppo_trainer.session import train

        return train(plan_json, **options)
