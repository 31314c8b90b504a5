"""How well a step used each pool."""

from dataclasses import dataclass

import pytest

from split_ppo_trainer.pool_load import WorkerUse, by_pool, by_worker, pool_metrics, usage_metrics


@dataclass(frozen=True)
class Places:
    actor: str = "actor"
    ref: str = "actor"
    critic: str = "critic"
    reward: str = "critic"


SECONDS = {
    "gen": 4.0, "old_log_prob": 1.0, "ref": 1.0, "values": 1.0, "adv": 0.5, "update_actor": 2.0, "update_critic": 2.0,
    "update_weights": 1.0, "step": 10.0,
}  # fmt: skip


def test_a_pool_is_busy_with_the_pieces_that_run_on_it() -> None:
    found = by_pool(pool_metrics(SECONDS, Places(), tokens=900))
    assert found["actor"] == pytest.approx({"busy_share": 0.9, "wait_s": 1.0, "tokens_per_s": 100.0})
    assert found["critic"] == pytest.approx({"busy_share": 0.3, "wait_s": 7.0, "tokens_per_s": 300.0})


@pytest.mark.parametrize(
    ("places", "seconds", "busy"),
    [
        (Places(ref="critic"), SECONDS, {"actor": 0.8, "critic": 0.4}),
        (Places(), {**SECONDS, "reward": 1.0}, {"actor": 0.9, "critic": 0.4}),
        (Places(reward="reward"), {**SECONDS, "reward": 1.0}, {"actor": 0.9, "critic": 0.3, "reward": 0.1}),
        (Places(critic="actor", reward="actor"), {**SECONDS, "step": 13.0}, {"actor": 12 / 13}),
        (Places(), {**SECONDS, "step": 15.0, "save_checkpoint": 5.0}, {"actor": 0.9, "critic": 0.3}),
        (Places(), {**SECONDS, "update_critic": 99.0}, {"actor": 0.9, "critic": 1.0}),
    ],
    ids=[
        "reference beside the critic",
        "reward beside the critic",
        "reward alone",
        "one pool",
        "checkpoint",
        "late update",
    ],
)
def test_busy_shares(places: Places, seconds: dict[str, float], busy: dict[str, float]) -> None:
    found = by_pool(pool_metrics(seconds, places, tokens=None))
    assert {pool: used["busy_share"] for pool, used in found.items()} == pytest.approx(busy)
    assert all(used["wait_s"] >= 0 and "tokens_per_s" not in used for used in found.values())


def test_nothing_is_said_of_a_step_without_a_length() -> None:
    assert pool_metrics({"gen": 1.0}, Places(), tokens=5) == {}


def test_by_pool_reads_what_was_written_and_nothing_else() -> None:
    metrics = {"split/pool/actor/memory_gb": 2.5, "split/pool_bytes": 3, "split/pool/actor/odd": 1, "x": 2.0}
    assert by_pool(metrics) == {"actor": {"memory_gb": 2.5}}
    assert by_pool({"split/pool/actor/busy_share": "nan"}) == {}


def test_workers_are_told_one_by_one_and_their_memory_as_the_pools() -> None:
    known = {
        "actor": {"rank-0": WorkerUse(0.5, 1_000_000_000), "server-0": WorkerUse(0.25, 500_000_000)},
        "critic": {"rank-0": WorkerUse(0.75, 2_000_000_000)},
    }
    metrics = usage_metrics(known)
    assert by_worker(metrics) == {
        "actor": {
            "rank-0": {"busy_share": 0.5, "memory_gb": 1.0},
            "server-0": {"busy_share": 0.25, "memory_gb": 0.5},
        },
        "critic": {"rank-0": {"busy_share": 0.75, "memory_gb": 2.0}},
    }
    assert by_pool(metrics) == {"actor": {"memory_gb": 1.5}, "critic": {"memory_gb": 2.0}}


def test_what_a_worker_did_not_say_is_not_made_up() -> None:
    first, beside_ranks = WorkerUse(None, 1_000_000_000), WorkerUse(0.5, None)
    one_is_missing = usage_metrics({"actor": {"rank-0": first, "rank-1": None}})
    assert one_is_missing == {"split/worker/actor/rank-0/memory_gb": 1.0}, "half a pool's memory is not the pool's"
    on_one_gpu = usage_metrics({"actor": {"rank-0": first, "server-0": beside_ranks}})
    assert by_pool(on_one_gpu) == {"actor": {"memory_gb": 1.0}}
    assert by_worker(on_one_gpu)["actor"]["server-0"] == {"busy_share": 0.5}
    assert by_pool(usage_metrics({"reward": {"reward-server-0": WorkerUse(0.5, None)}})) == {}
