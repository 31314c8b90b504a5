"""Split placement for real: who runs where, every overlap level against None, and what ends a run in the middle.

One trainer serves all of it, in this order: the last test kills its critic.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from live import Remote, live_trainer
from plans import tiny_plan

from split_ppo_trainer.pool_load import by_pool, by_worker
from split_ppo_trainer.toy import materialise

pytestmark = pytest.mark.trainer
STEPS = 6
LEVELS = ("Update", "Inference", "NextGeneration")
PIECES = ("gen", "old_log_prob", "values", "adv", "update_actor", "update_critic", "update_weights", "step")
COMPARED = (
    "actor/pg_loss",
    "actor/grad_norm",
    "actor/entropy",
    "critic/vf_loss",
    "critic/grad_norm",
    "critic/values/mean",
    "critic/advantages/mean",
    "critic/advantages/max",
    "critic/advantages/min",
    "critic/returns/mean",
    "critic/score/mean",
)
TOLERANCE = {"rel": 1e-4, "abs": 1e-6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("split")


@pytest.fixture(scope="module")
def trainer(folder: Path) -> Iterator[Remote]:
    reward = folder / "reward.py"
    shutil.copyfile(Path(__file__).with_name("switch_reward.py"), reward)
    plan = tiny_plan(
        steps=STEPS,
        storage=folder / "checkpoints",
        config={"reward": {"custom_reward_function": {"path": str(reward)}}},
    )
    plan = plan.model_copy(update={"verl": materialise(plan.verl, folder / "toys")})
    with live_trainer(plan, folder) as remote:
        yield remote


@pytest.fixture(scope="module")
def fits(trainer: Remote) -> dict[str, dict[int, dict[str, float]]]:
    """Metrics by step of a fit at each level, all from the same weights."""
    done = {level: trainer.fit(level, level=level, steps=STEPS, save=True) for level in ("None", *LEVELS)}
    assert {level: fit["reason"] for level, fit in done.items()} == dict.fromkeys(done)
    return {level: fit["metrics"] for level, fit in done.items()}


def test_every_worker_is_on_its_pool(trainer: Remote) -> None:
    placement = trainer.placement()
    assert [(w["role"], w["rank"], w["pool"], w["resource"]) for w in placement["workers"]] == [
        ("ActorRollout", 0, "actor", "actor_pool"),
        ("Critic", 0, "critic", "critic_pool"),
        ("RolloutServer", 0, "actor", "actor_pool"),
    ]


def test_helpers_stay_off_the_critics_pool(trainer: Remote) -> None:
    helpers = {helper["role"]: helper["pool"] for helper in trainer.placement()["helpers"]}
    assert {"SeededAgentLoopWorker", "ScoringWorker", "SimpleStorageUnit", "TransferQueueController"} <= set(helpers)
    assert "critic" not in helpers.values(), helpers


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_gives_the_same_losses_and_advantages_as_none(fits: dict[str, Any], level: str) -> None:
    assert sorted(fits[level]) == sorted(fits["None"]) == list(range(1, STEPS + 1))
    for step in fits["None"]:
        for name in COMPARED:
            expected = fits["None"][step][name]
            assert fits[level][step][name] == pytest.approx(expected, **TOLERANCE), (step, name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("role", ["actor", "critic"])
def test_a_level_gives_the_same_weights_as_none(fits: dict[str, Any], folder: Path, level: str, role: str) -> None:
    import torch

    def weights(name: str) -> dict[str, Any]:
        file = folder / name / f"global_step_{STEPS}" / role / "model_world_size_1_rank_0.pt"
        loaded = torch.load(file, weights_only=False)
        return {key: getattr(value, "_local_tensor", value) for key, value in loaded.items()}

    none, other = weights("None"), weights(level)
    assert none.keys() == other.keys()
    for key in none:
        torch.testing.assert_close(other[key], none[key], rtol=1e-4, atol=1e-6, msg=key)


def test_training_changes_the_weights(fits: dict[str, Any]) -> None:
    """Else the comparisons above would hold for a trainer that does nothing."""
    losses = [fits["None"][step]["critic/vf_loss"] for step in fits["None"]]
    assert len(set(losses)) == STEPS
    assert all(fits["None"][step]["actor/grad_norm"] > 0 for step in fits["None"])


@pytest.mark.parametrize("level", ["None", *LEVELS])
def test_responses_come_from_the_weights_of_their_step(fits: dict[str, Any], level: str) -> None:
    """The engine keeps a packed copy of the weights: with an old one it would give tokens other probabilities than the actor."""
    differences = [fits[level][step]["training/rollout_probs_diff_max"] for step in fits[level]]
    assert max(differences) < 1e-5, differences


@pytest.mark.parametrize("level", ["None", *LEVELS])
def test_each_level_reports_verls_pieces_on_their_own_step(fits: dict[str, Any], level: str) -> None:
    for step, metrics in fits[level].items():
        assert {f"timing_s/{piece}" for piece in PIECES} <= metrics.keys(), step
        assert {"split/critic_wait_s", "split/overlap_efficiency", "split/pool_bytes"} <= metrics.keys(), step
        assert all(metrics[f"timing_s/{piece}"] > 0 for piece in PIECES)
        assert metrics["split/pool_bytes"] > 0


@pytest.mark.parametrize("level", ["None", *LEVELS])
def test_durations_are_those_of_the_pieces_not_of_waiting(fits: dict[str, Any], level: str) -> None:
    """What the actor's pool does one after the other fits into the step; with None, all of it does."""
    serial = ("gen", "old_log_prob", "adv", "update_actor", "update_weights")
    serial += ("values", "update_critic") if level == "None" else ()
    for step, metrics in fits[level].items():
        assert sum(metrics[f"timing_s/{piece}"] for piece in serial) <= metrics["timing_s/step"] * 1.001, step
        assert 0 < metrics["split/overlap_efficiency"] <= 1.001, step
        if level == "None":
            together = metrics["timing_s/values"] + metrics["timing_s/update_critic"]
            assert metrics["split/critic_wait_s"] == pytest.approx(together, rel=0.2, abs=0.1)


@pytest.mark.parametrize("level", ["None", *LEVELS])
def test_each_step_tells_how_each_pool_was_used(fits: dict[str, Any], level: str) -> None:
    for step, metrics in fits[level].items():
        used = by_pool(metrics)
        assert set(used) == {"actor", "critic"}, step
        for pool, facts in used.items():
            assert facts["memory_gb"] > 0.01, (step, pool)
            assert 0 < facts["busy_share"] <= 1
            assert facts["tokens_per_s"] > 0
        actor = ("gen", "old_log_prob", "update_actor", "update_weights")
        busy = sum(metrics[f"timing_s/{piece}"] for piece in actor)
        length = metrics["timing_s/step"] - metrics.get("timing_s/save_checkpoint", 0.0)
        assert used["actor"]["wait_s"] == pytest.approx(length - busy, abs=1e-6)


@pytest.mark.parametrize("level", ["None", *LEVELS])
def test_each_step_tells_how_each_worker_was_used(fits: dict[str, Any], level: str) -> None:
    """A worker's share is of the time since it was asked before, about the step before."""
    steps = list(fits[level].values())
    for before, metrics in pairwise(steps):
        used = by_worker(metrics)
        assert {pool: set(workers) for pool, workers in used.items()} == {
            "actor": {"rank-0", "server-0"},
            "critic": {"rank-0"},
        }
        for pool, workers in used.items():
            together = sum(worker["memory_gb"] for worker in workers.values())
            assert together == pytest.approx(by_pool(metrics)[pool]["memory_gb"])
            assert all(0 < worker["busy_share"] <= 1 and worker["memory_gb"] > 0.01 for worker in workers.values())
        if level == "None":
            for worker, pieces in (
                (used["actor"]["rank-0"], ("old_log_prob", "update_actor", "update_weights")),
                (used["actor"]["server-0"], ("gen",)),
                (used["critic"]["rank-0"], ("values", "update_critic")),
            ):
                at_most = sum(before[f"timing_s/{piece}"] for piece in pieces) / before["timing_s/step"]
                assert worker["busy_share"] <= at_most * 1.05


def test_every_level_moves_the_same_bytes(fits: dict[str, Any]) -> None:
    moved = {level: [metrics["split/pool_bytes"] for metrics in fit.values()] for level, fit in fits.items()}
    assert moved["Inference"] == moved["NextGeneration"]
    assert moved["None"] == moved["Update"]


def test_generation_is_not_rounded_to_verls_poll(fits: dict[str, Any]) -> None:
    """verl's replay buffer looks every 2 s; these generations take less."""
    shortest = min(metrics["timing_s/gen"] for fit in fits.values() for metrics in fit.values())
    assert shortest < 2.0


def test_a_run_tells_of_its_machine(trainer: Remote) -> None:
    """Two ranks of pools that share nothing else exchange what FSDP would."""
    events = trainer.fit("machine", steps=1)["events"]
    [told] = [event for event in events if event["event"] == "machine"]
    assert told["cores"] == os.cpu_count()
    assert set(told["exchange"]) == {"ActorRollout", "Critic"}
    seconds = [seconds for role in told["exchange"].values() for seconds in (role["gather"], role["scatter"])]
    assert all(0 < each < 5 for each in seconds), told


@pytest.mark.parametrize("role", ["actor", "critic"])
def test_what_is_exchanged_is_every_parameter_once(
    trainer: Remote, fits: dict[str, Any], folder: Path, role: str
) -> None:
    import torch

    file = folder / "None" / f"global_step_{STEPS}" / role / "model_world_size_1_rank_0.pt"
    weights = torch.load(file, weights_only=False)
    units = trainer.unit_sizes()[role]
    layers = {name.split("layers.")[1].split(".")[0] for name in weights if "layers." in name}
    assert len(units) > len(layers)
    apart = {getattr(value, "_local_tensor", value).data_ptr(): value.numel() for value in weights.values()}
    assert sum(units) == sum(apart.values())


def test_a_nan_loss_ends_the_run_with_its_name(trainer: Remote, folder: Path) -> None:
    switch = folder / "nan"
    switch.touch()
    try:
        ended = trainer.fit("nan", level="NextGeneration", steps=3)
    finally:
        switch.unlink()
    assert ended["reason"] == "NonFiniteLoss"
    assert "is nan at step 1" in ended["message"]
    assert not list((folder / "nan-checkpoints").glob("*"))


def test_a_reward_that_raises_in_the_middle_says_what_it_raised(trainer: Remote, folder: Path) -> None:
    switch = folder / "raise"
    switch.touch()
    try:
        ended = trainer.fit("raise", steps=2)
    finally:
        switch.unlink()
    assert ended["reason"] == "RolloutFailed"
    assert "ValueError: the reward was told to raise" in ended["message"]


def test_a_full_disk_at_a_checkpoint_leaves_nothing_half_written(trainer: Remote, folder: Path) -> None:
    disk = folder / "small"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        ended = trainer.fit("small", level="NextGeneration", steps=1, save=True)
        left = list(disk.iterdir())
    finally:
        subprocess.run(["umount", disk], check=True)
    assert ended["reason"] == "DiskFull", ended
    assert "does not fit under" in ended["message"]
    assert left == []


def test_a_worker_killed_in_the_middle_ends_the_run(trainer: Remote, folder: Path) -> None:
    (folder / "kill").write_text(str(trainer.pid_of_critic()))
    ended = trainer.fit("kill", level="NextGeneration", steps=3)
    assert ended["reason"] == "WorkerDied"
    assert "died" in ended["message"]
    assert trainer.machine().exchange == {}, "a rank that is gone costs no more than the number"
