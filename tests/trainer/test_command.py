"""The trainer's command on real pools: an uneven split whose critic's node is lost, and a run that is killed and resumed."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import LocalCluster, training_cluster
from commands import SAME, Trainer
from plans import tiny_plan

from split_ppo.runplan import RunPlan
from split_ppo_trainer.checkpoints import find_all

pytestmark = pytest.mark.trainer
WITH_REFERENCE = {"actor_rollout_ref": {"actor": {"use_kl_loss": True}}}


class TestUnevenPools:
    """Actor on two slots, critic and reference policy on one; then the critic's node is gone."""

    @pytest.fixture(scope="class")
    @staticmethod
    def plan() -> RunPlan:
        return tiny_plan(
            layout="uneven", overlap="NextGeneration", steps=1000, roles={"RefPolicy": "critic"}, config=WITH_REFERENCE
        )

    @pytest.fixture(scope="class")
    @staticmethod
    def cluster(plan: RunPlan) -> Iterator[LocalCluster]:
        with training_cluster(plan) as cluster:
            yield cluster

    @pytest.fixture(scope="class")
    @staticmethod
    def trainer(plan: RunPlan, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
        trainer = Trainer(plan, tmp_path_factory.mktemp("uneven"), address=cluster.address)
        assert trainer.wait_for(lambda event: event["event"] == "step" and event["step"] == 4), trainer.last_line()
        return trainer

    def test_every_worker_is_on_its_pool(self, trainer: Trainer) -> None:
        (placement,) = [event for event in trainer.events() if event["event"] == "placement"]
        assert [(w["role"], w["rank"], w["pool"], w["resource"]) for w in placement["workers"]] == [
            ("ActorRollout", 0, "actor", "actor_pool"),
            ("ActorRollout", 1, "actor", "actor_pool"),
            ("Critic", 0, "critic", "critic_pool"),
            ("RefPolicy", 0, "critic", "critic_pool"),
            ("RolloutServer", 0, "actor", "actor_pool"),
            ("RolloutServer", 1, "actor", "actor_pool"),
        ]
        engines = placement["engines"]
        assert [(e["rank"], e["pool"], Path(f"/proc/{e['pid']}").exists()) for e in engines] == [
            (0, "actor", True),
            (1, "actor", True),
        ]
        assert not {e["pid"] for e in engines} & {w["pid"] for w in placement["workers"]}
        assert all(helper["pool"] != "critic" for helper in placement["helpers"])

    def test_the_reference_pass_is_measured_and_pulls_on_the_actor(self, trainer: Trainer) -> None:
        for metrics in trainer.metrics().values():
            assert metrics["timing_s/ref"] > 0
            assert "actor/kl_loss" in metrics
        # The reference is the policy that training started from, so the distance grows from about nought.
        distance = {step: metrics["actor/kl_loss"] for step, metrics in trainer.metrics().items()}
        assert 0 <= distance[1] < 0.05
        assert distance[1] < distance[4]

    def test_gauges_are_on_rays_metrics_port(self, trainer: Trainer, cluster: LocalCluster) -> None:
        deadline = time.monotonic() + 60
        while True:
            text = cluster.metrics_of_the_head()
            if "split_ppo_step" in text or time.monotonic() > deadline:
                break
            trainer.wait_for_another_step()
        for name in ("step", "reward", "phase_seconds", "overlap_efficiency", "critic_wait_seconds", "pool_bytes"):
            assert f"ray_split_ppo_{name}" in text
        for name in ("busy_share", "memory_bytes", "tokens_per_second", "wait_seconds"):
            lines = [line for line in text.splitlines() if line.startswith(f"ray_split_ppo_pool_{name}{{")]
            assert {pool for pool in ("actor", "critic") for line in lines if f'pool="{pool}"' in line} == {
                "actor",
                "critic",
            }

    def test_a_lost_node_ends_the_run(self, trainer: Trainer, cluster: LocalCluster) -> None:
        cluster.lose("critic")
        assert trainer.wait() == 1
        assert trainer.error()["reason"] == "NodeLost"
        assert "of pool critic" in trainer.error()["message"]
        assert trainer.last_line() == f"{trainer.error()['reason']}: {trainer.error()['message']}"


@pytest.mark.slow
class TestKilledRun:
    """A trainer killed with SIGKILL behind its first checkpoint, resumed on another cluster; test_run.py has the short form."""

    @pytest.fixture(scope="class")
    @staticmethod
    def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("killed")

    @pytest.fixture(scope="class")
    @staticmethod
    def runs(folder: Path) -> tuple[Trainer, Trainer]:
        plan = tiny_plan(overlap="NextGeneration", steps=7, storage=folder / "ckpt", every_steps=4, keep=2)
        with training_cluster(plan) as cluster:
            killed = Trainer(plan, folder / "first", address=cluster.address)
            assert killed.wait_for(lambda event: event["event"] == "step" and event["step"] == 5), killed.last_line()
            os.killpg(killed.process.pid, signal.SIGKILL)
            assert killed.wait() == -signal.SIGKILL
            # As a kill in the middle of a checkpoint would leave it.
            (folder / "ckpt" / ".saving-5" / "global_step_5" / "actor").mkdir(parents=True)
        with training_cluster(plan) as cluster:
            resumed = Trainer(plan, folder / "second", "--resume", address=cluster.address)
            assert resumed.wait() == 0, resumed.last_line()
        return killed, resumed

    def test_it_resumes_behind_the_last_complete_checkpoint(self, runs: tuple[Trainer, Trainer]) -> None:
        killed, resumed = runs
        assert list(resumed.metrics()) == [5, 6, 7]
        assert set(killed.metrics()) >= {1, 2, 3, 4, 5}

    def test_it_continues_the_same_curve(self, runs: tuple[Trainer, Trainer]) -> None:
        killed, resumed = (run.metrics() for run in runs)
        both = sorted(set(killed) & set(resumed))
        assert both
        for step in both:
            for name in SAME:
                assert resumed[step][name] == pytest.approx(killed[step][name], rel=1e-4, abs=1e-6), (step, name)

    def test_the_newest_are_kept_and_nothing_half_written_is(self, runs: tuple[Trainer, Trainer], folder: Path) -> None:
        assert [checkpoint.step for checkpoint in find_all(folder / "ckpt")] == [4, 7]
        assert not [entry for entry in (folder / "ckpt").iterdir() if entry.name.startswith(".")]
        for checkpoint in find_all(folder / "ckpt"):
            assert (checkpoint.path / "actor" / "model_world_size_1_rank_0.pt").is_file()
            assert (checkpoint.path / "critic" / "model_world_size_1_rank_0.pt").is_file()

    def test_starting_afresh_over_it_is_refused(self, runs: tuple[Trainer, Trainer], folder: Path) -> None:
        again = Trainer(tiny_plan(storage=folder / "ckpt"), folder / "fourth", address="127.0.0.1:1")
        assert again.wait() == 2
        assert "add --resume" in again.last_line()
