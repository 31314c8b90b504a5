"""The other layouts, trained for real: everything on one pool, and a reward model on its own pool or on the critic's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import Remote, live_trainer
from plans import tiny_plan
from reward_models import write_reward_model

from split_ppo.runplan import RunPlan
from split_ppo_trainer.pool_load import by_pool, by_worker
from split_ppo_trainer.toy import make, materialise

pytestmark = pytest.mark.trainer


def started(plan: RunPlan, folder: Path) -> Iterator[Remote]:
    plan = plan.model_copy(update={"verl": materialise(plan.verl, folder / "toys")})
    with live_trainer(plan, folder) as remote:
        yield remote


def pools_of(trainer: Remote) -> list[tuple[str, int, str]]:
    return [(worker["role"], worker["rank"], worker["pool"]) for worker in trainer.placement()["workers"]]


class TestColocated:
    @pytest.fixture(scope="class")
    @staticmethod
    def trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
        folder = tmp_path_factory.mktemp("colocated")
        plan = tiny_plan(layout="colocated", overlap="NextGeneration", storage=folder / "checkpoints")
        yield from started(plan, folder)

    def test_every_role_is_on_the_one_pool(self, trainer: Remote) -> None:
        assert pools_of(trainer) == [
            ("ActorRollout", 0, "actor"),
            ("Critic", 0, "actor"),
            ("RolloutServer", 0, "actor"),
        ]

    def test_it_trains_and_its_limit_is_the_sum_of_the_pieces(self, trainer: Remote) -> None:
        fit = trainer.fit("colocated", steps=2)
        assert fit["reason"] is None
        for metrics in fit["metrics"].values():
            pieces = ("gen", "old_log_prob", "values", "update_actor", "update_critic", "update_weights")
            limit = sum(metrics[f"timing_s/{piece}"] for piece in pieces)
            assert metrics["split/overlap_efficiency"] == pytest.approx(limit / metrics["timing_s/step"])
            assert metrics["split/pool_bytes"] == 0
        [machine] = [event for event in fit["events"] if event["event"] == "machine"]
        assert machine["exchange"] == {}, "one rank has nobody to exchange with"


@pytest.mark.slow
class TestReferenceBesideTheCritic:
    @pytest.fixture(scope="class")
    @staticmethod
    def trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
        folder = tmp_path_factory.mktemp("reference")
        kl = {"actor_rollout_ref": {"actor": {"use_kl_loss": True}}}
        yield from started(tiny_plan(roles={"RefPolicy": "critic"}, storage=folder / "checkpoints", config=kl), folder)

    def test_it_shares_the_critics_pool(self, trainer: Remote) -> None:
        assert ("RefPolicy", 0, "critic") in pools_of(trainer)

    def test_running_beside_the_actor_changes_no_number(self, trainer: Remote) -> None:
        fits = {level: trainer.fit(level, level=level, steps=5) for level in ("None", "Inference", "NextGeneration")}
        none = fits.pop("None")["metrics"]
        for fit in fits.values():
            assert fit["reason"] is None
            for step, metrics in none.items():
                for name in ("actor/kl_loss", "actor/pg_loss", "critic/vf_loss", "actor/grad_norm", "critic/grad_norm"):
                    assert fit["metrics"][step][name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-6), (step, name)


def reward_model(folder: Path, pool: str) -> dict[str, Any]:
    path = write_reward_model(make("digits", folder / "toys") / "model", folder / "reward-model")
    server = {"name": "vllm", "tensor_model_parallel_size": 1, "max_model_len": 128, "max_num_seqs": 16}
    server |= {"prompt_length": 96, "response_length": 8, "max_num_batched_tokens": 1024}
    model = {"enable": True, "model_path": str(path), "rollout": server}
    return {"reward": {"custom_reward_function": {"path": None}, "reward_model": model}}


@pytest.mark.parametrize("pool", ["reward", pytest.param("critic", marks=pytest.mark.slow)], scope="class")
class TestRewardModel:
    @pytest.fixture(scope="class")
    @staticmethod
    def trainer(pool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
        folder = tmp_path_factory.mktemp(f"reward-on-{pool}")
        plan = tiny_plan(
            layout="reward" if pool == "reward" else "split",
            roles={"RewardModel": pool},
            storage=folder / "checkpoints",
            config=reward_model(folder, pool),
        )
        yield from started(plan, folder)

    def test_it_is_on_its_pool_and_the_others_on_theirs(self, trainer: Remote, pool: str) -> None:
        assert pools_of(trainer) == [
            ("ActorRollout", 0, "actor"),
            ("Critic", 0, "critic"),
            ("RolloutServer", 0, "actor"),
            ("RewardModel", 0, pool),
        ]

    def test_its_scores_are_the_rewards_at_every_level(self, trainer: Remote, pool: str) -> None:
        none = trainer.fit("None", level="None", steps=3)
        ahead = trainer.fit("NextGeneration", level="NextGeneration", steps=3)
        assert (none["reason"], ahead["reason"]) == (None, None)
        for step, metrics in none["metrics"].items():
            assert abs(metrics["critic/score/mean"]) > 1e-6
            assert ahead["metrics"][step]["critic/score/mean"] == pytest.approx(metrics["critic/score/mean"], rel=1e-3)
            assert ("timing_s/reward" in metrics) == (pool == "critic")
            used = by_pool(metrics)
            assert set(used) == {"actor", "critic", pool}
            assert 0 < used[pool]["busy_share"] <= 1
            assert used[pool]["memory_gb"] > 0.01
        server = by_worker(none["metrics"][3])[pool]["reward-server-0"]
        assert 0 < server["busy_share"] <= 1
        assert server["memory_gb"] > 0.01
