"""Advice: the other splits of the same GPUs, ranked."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_cost import measured

from builders import make_job, pools
from run_folders import SECONDS, run_plan, write_run
from split_ppo.api.generate import ROOT
from split_ppo.cli.main import cli
from split_ppo.placement.advice import advise
from split_ppo.placement.planner import plan_placement
from split_ppo.placement.splits import other_splits, split_name
from split_ppo.verl_config import verl_settings
from split_ppo_trainer.progress import append_line

SETTINGS = run_plan().verl


def splits(spec: dict[str, object], **training: object) -> list[str]:
    job = make_job(
        {**spec, "training": {"batchSize": 840, "miniBatchSize": 840, "microBatchSizePerGPU": 1, **training}}
    )
    return [split_name(p) for p in other_splits(plan_placement(job.spec.placement), verl_settings(job.spec))]


def test_every_cut_of_one_node_and_one_pool() -> None:
    assert splits(pools(2, 2)) == ["actor 1 + critic 3", "actor 3 + critic 1", "Colocated 4"]


def test_every_node_is_cut_alike() -> None:
    assert splits(pools(2, 1, nodes=2, layout="WithinNodes")) == ["actor 2 + critic 4", "Colocated 6"]


def test_whole_nodes_change_sides() -> None:
    assert splits({"placement": {"total": {"nodes": 3, "gpusPerNode": 2}, "layout": "AcrossNodes"}}) == [
        "actor 2 + critic 4",
        "Colocated 6",
    ]


def test_unlike_nodes_are_not_broken_up() -> None:
    unlike = {"placement": {"total": None, "pools": {"actor": {"nodes": 2, "gpusPerNode": 6}, "critic": {"nodes": 2, "gpusPerNode": 2}}}}  # fmt: skip  # noqa: E501
    assert splits(unlike) == []


def test_a_reward_pool_stays_as_it_is() -> None:
    assert splits(pools(2, 1, reward=1)) == ["actor 1 + critic 2 + reward 1"]


def test_what_the_batch_does_not_fit_is_left_out() -> None:
    assert splits(pools(2, 2), batchSize=64, miniBatchSize=64) == ["Colocated 4"]


def test_from_one_pool_to_two() -> None:
    colocated = run_plan(actor=4, critic=0).placement
    found = other_splits(colocated, {**SETTINGS})
    assert [split_name(plan) for plan in found] == ["actor 2 + critic 2"]  # 3 does not divide a batch of 64
    assert found[0].roles["Critic"] == "critic"


def test_a_critic_that_mostly_waits_gives_a_gpu_away() -> None:
    light = {**SECONDS, "values": 0.3, "update_critic": 2.5}
    advice = advise([measured(actor=2, critic=2, overlap="NextGeneration", seconds=light)], _settings(840))
    assert advice.best.split == "actor 3 + critic 1"
    # 4 + 1 + 3 on three ranks instead of two, perfectly and less so, and the weight sync
    assert advice.best.low == pytest.approx(8 * 2 / 3 + 0.5)
    assert advice.best.high == pytest.approx(8 * (2 / 3) ** 0.7 + 0.5)
    assert advice.sure
    assert "actor 2 + critic 2 takes 8.50 s a step; actor 3 + critic 1 would take" in advice.sentence()
    assert advice.sentence().endswith("Sure: it holds however well the work scales.")


def test_slots_on_the_cpu_are_reckoned_from_their_exchange() -> None:
    on_cpu = {"overlap": "None", "device": "CPU"}
    exchange = {"old_log_prob": 0.2, "values": 0.2, "update_actor": 0.8, "update_critic": 0.8, "update_weights": 0.1}
    [known] = advise([measured(exchange=exchange, **on_cpu)], SETTINGS).ranking[:1]
    # 8 s of passes and updates shared by two, half of what two exchange, generation as before, and the weights gathered once.
    assert known.split == "Colocated 2"
    assert known.seconds == pytest.approx(4.0 + (8.0 + 2.0) / 2 + 0.5 + 0.1)
    assert known.low < known.seconds < known.high
    [assumed] = [p for p in advise([measured(**on_cpu)], SETTINGS).ranking if p.split == "Colocated 2"]
    assert assumed.high - assumed.low > known.high - known.low, "what was measured narrows the range"


def test_a_spread_as_wide_as_the_gain_makes_it_unsure() -> None:
    light = {**SECONDS, "values": 0.3, "update_critic": 2.5}
    run = measured(actor=2, critic=2, overlap="NextGeneration", seconds=light)
    assert not advise([run], _settings(840), spread=3.0).sure


def test_the_best_split_stays() -> None:
    even = {**SECONDS, "update_critic": 7.0}
    advice = advise([measured(overlap="NextGeneration", seconds=even)], SETTINGS)
    assert advice.stay
    assert "is the best: the next, Colocated 2" in advice.sentence()


def _settings(batch: int) -> dict[str, object]:
    return run_plan(batch=batch).verl


def call(*args: object) -> Result:
    return CliRunner().invoke(cli, ["advise", *map(str, args)])


def test_the_ranking_as_a_table(tmp_path: Path) -> None:
    write_run(tmp_path / "a", run_plan(actor=2, critic=2, overlap="NextGeneration"))
    result = call(tmp_path / "a")
    assert result.exit_code == 0, result.output
    assert "measured" in result.output
    assert "Colocated 4" in result.output


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", run_plan(device="CPU"))
    assert "From one run: how well the work scales is assumed." in call(folder).output
    exchange = {"ActorRollout": {"gather": 0.001, "scatter": 0.002}, "Critic": {"gather": 0.001, "scatter": 0.002}}
    append_line(folder / "events.jsonl", {"event": "machine", "time": 0.0, "cores": 8, "exchange": exchange})
    assert "is reckoned from what its ranks take to exchange parameters." in call(folder).output


def test_json_and_runs_of_two_sizes(tmp_path: Path) -> None:
    """What was measured is not predicted."""
    write_run(tmp_path / "a", run_plan(actor=2, critic=2))
    at_four = {**{name: took / 2 for name, took in SECONDS.items()}, "update_weights": 0.5}
    write_run(tmp_path / "b", run_plan(actor=4, critic=0), seconds=at_four)
    found = json.loads(call(tmp_path / "a", tmp_path / "b", "-o", "json").output)
    colocated = next(p for p in found["predictions"] if p["split"] == "Colocated 4")
    assert colocated["seconds"] == pytest.approx(6.5)
    assert colocated["high"] - colocated["low"] == pytest.approx(0, abs=1e-6)
    assert colocated["measured"] is True


def test_runs_of_different_jobs_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "a", run_plan())
    write_run(tmp_path / "b", run_plan(batch=32))
    result = call(tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 2
    assert "data.train_batch_size" in result.output


def test_nothing_to_go_by_is_said() -> None:
    assert "Name the folder of a run, or a job with --probe" in call().output


def test_a_probe_overwrites_nothing(tmp_path: Path) -> None:
    result = call("--probe", ROOT / "examples/quickstart-cpu.yaml", "--output-dir", tmp_path)
    assert result.exit_code == 2
    assert "is there already" in result.output
