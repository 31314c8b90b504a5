"""Nothing fails and nothing moves: each wait of a run ends with a reason that says what was waited for."""

import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import local_cluster, training_cluster
from commands import Trainer
from plans import tiny_plan

from split_ppo.runplan import RunPlan

pytestmark = [pytest.mark.trainer, pytest.mark.slow]
PATIENCE = ("--stall-seconds", "60")  # start-up has to fit in as well


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    reward = tmp_path / "reward.py"
    shutil.copyfile(Path(__file__).with_name("switch_reward.py"), reward)
    return tiny_plan(steps=1000, config={"reward": {"custom_reward_function": {"path": str(reward)}}})


def assert_stalled(trainer: Trainer, reason: str, waiting_for: str) -> None:
    assert trainer.wait() == 1
    assert trainer.error()["reason"] == reason
    assert f"while waiting for {waiting_for}" in trainer.error()["message"]
    assert trainer.last_line() == f"{reason}: {trainer.error()['message']}"


def test_a_reward_that_never_answers(plan: RunPlan, tmp_path: Path) -> None:
    with training_cluster(plan) as cluster:
        trainer = Trainer(plan, tmp_path / "out", *PATIENCE, address=cluster.address)
        assert trainer.wait_for(lambda event: event["event"] == "step"), trainer.last_line()
        (tmp_path / "hang").touch()
        assert_stalled(trainer, "GenerationStalled", "generation of step")


def test_a_rollout_server_that_takes_no_weights(plan: RunPlan, tmp_path: Path) -> None:
    with training_cluster(plan) as cluster:
        trainer = Trainer(plan, tmp_path / "out", *PATIENCE, address=cluster.address)
        assert trainer.wait_for(lambda event: event["event"] == "step"), trainer.last_line()
        with frozen(engine_of(trainer), tmp_path / "freeze"):
            assert_stalled(trainer, "WeightSyncStalled", "weights of step")


def test_a_pool_that_somebody_else_takes_before_the_workers_are_placed(plan: RunPlan, tmp_path: Path) -> None:
    import ray

    class Squatter:
        def ready(self) -> bool:
            return True

    with local_cluster(plan.placement) as cluster:
        ray.init(address=cluster.address)
        try:
            trainer = Trainer(plan, tmp_path / "out", *PATIENCE, address=cluster.address)
            assert trainer.wait_for(lambda event: "The pools are there" in event.get("message", ""))
            # CPUs, not the GPU: verl counts those by itself, and waits for CPUs without a word.
            squatter = ray.remote(Squatter).options(num_cpus=3, resources={"critic_pool": 1e-4}).remote()
            assert ray.get(squatter.ready.remote())
            assert_stalled(trainer, "PlacementStalled", "the workers to be placed and built")
        finally:
            ray.shutdown()


def engine_of(trainer: Trainer) -> int:
    """The process in which vLLM generates; it puts its number before what it says."""
    (engine,) = set(re.findall(r"EngineCore\S* pid=(\d+)", (trainer.output / "log.txt").read_text(errors="replace")))
    return int(engine)


@contextlib.contextmanager
def frozen(pid: int, switch: Path) -> Iterator[None]:
    """From the end of the next generation on the process does nothing, and knows nothing of its parents' death."""
    switch.with_suffix(".partial").write_text(str(pid))
    switch.with_suffix(".partial").rename(switch)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
