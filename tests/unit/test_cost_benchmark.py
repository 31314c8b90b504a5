"""The benchmark's own arithmetic, on runs whose ratios are known."""

import json
from pathlib import Path

import pytest

from benchmarks.trainer_machine import stolen_share, stolen_since
from benchmarks.trainer_pinning import assignment
from benchmarks.trainer_results import LEVEL_NAMES, results, table, turns_of
from run_folders import SECONDS, run_plan, write_run
from split_ppo.api.generate import ROOT
from split_ppo_trainer.progress import append_line


def turning_run(folder: Path) -> None:
    """A run of two cycles whose steps are those of the level whose turn it is."""
    turns = turns_of("equal_models", "split")
    count, lines = 2 * turns.steps * len(turns.levels), []
    for level, name in LEVEL_NAMES.items():
        write_run(folder.parent / name, run_plan(overlap=name), steps=count, slow_first=0)
        steps = (folder.parent / name / "metrics.jsonl").read_text().splitlines()
        lines += [(number, steps[number - 1]) for number in range(1, count + 1) if turns.at(number) is level]
    folder.mkdir()
    (folder / "plan.json").write_text(run_plan(overlap="NextGeneration").to_json())
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for _, line in sorted(lines)))
    (folder / "summary.json").write_text("{}")


def test_ratios_and_predictions_of_known_runs(tmp_path: Path) -> None:
    turning_run(tmp_path / "equal_models.split.1")
    halves = {name: took / 2 for name, took in SECONDS.items()} | {"update_weights": 0.5}
    colocated = write_run(tmp_path / "equal_models.colocated.1", run_plan(actor=2, critic=0), seconds=halves)
    (colocated / "summary.json").write_text("{}")
    (tmp_path / "together_over_alone.1").write_text("1.020")
    for run, share in ((tmp_path / "equal_models.split.1", "0.0310"), (colocated, "0.0010")):
        (run / "stolen_share").write_text(share)
    found = results(tmp_path)
    ratios = {name: row["value"] for name, row in found["ratios"].items()}
    assert ratios["update_pair_over_limit"] == pytest.approx(1.0, abs=1e-3)
    assert ratios["none_over_best"] == pytest.approx(12.5 / 8.5, abs=1e-3)
    assert ratios["colocated_over_best"] == pytest.approx(6.5 / 8.5, abs=1e-3)
    assert found["ratios"]["none_over_best"]["met"] is False
    assert found["scenarios"]["equal_models"]["None"]["timed_steps"] == 6  # two blocks of five, first and last left out
    exact = [row for row in found["predictions"] if row["from"] == "None" and row["to"] != "Colocated"]
    assert [row["ratio"] for row in exact] == [pytest.approx(1.0, abs=1e-3)] * 3
    assert "| `none_over_best` | 1.47 | 1.47 | >= 1.5 | missed |" in table(found)
    assert "÷ alone 1.02; most of the cores' time that a run lost to other machines 3.1%." in table(found)


def test_predictions_reckon_with_what_the_runs_tried(tmp_path: Path) -> None:
    def predicted(folder: Path, gather: float | None) -> float:
        folder.mkdir()
        run = write_run(folder / "small_critic.split.1", run_plan(device="CPU"))
        one_pool = write_run(folder / "small_critic.colocated.1", run_plan(actor=2, critic=0, device="CPU"))
        for path in (run, one_pool):
            (path / "summary.json").write_text("{}")
        if gather is not None:
            each = {"gather": gather, "scatter": gather}
            event = {"event": "machine", "time": 0.0, "cores": 8, "exchange": {"ActorRollout": each, "Critic": each}}
            append_line(run / "events.jsonl", event)
        [row] = [row for row in results(folder)["predictions"] if row["to"] == "Colocated"]
        return float(row["predicted"])

    assert predicted(tmp_path / "a", 0.001) < predicted(tmp_path / "b", 0.01)
    assert predicted(tmp_path / "c", 0.001) < predicted(tmp_path / "d", None)


def test_what_others_took_is_a_share_of_what_was_worked() -> None:
    before = "cpu  100 10 50 9000 5 1 2 7 0 0\ncpu0 1 2 3"
    after = "cpu  160 20 70 9900 9 2 11 32 0 0\ncpu0 1 2 3"
    assert stolen_share(before, after) == 25 / 125
    assert stolen_share(before, before) == 0
    assert 0 <= stolen_since()() <= 1


def test_every_slot_has_its_core() -> None:
    plan = {"placement": {"pools": [{"name": "actor", "gpus": [2]}, {"name": "critic", "gpus": [1]}]}}
    workers = [("actor", 0, 11), ("actor", 1, 12), ("critic", 0, 13)]
    engines = [("actor", 0, 21), ("actor", 1, 22)]
    place = {
        kind: [{"pool": pool, "rank": rank, "pid": pid} for pool, rank, pid in found]
        for kind, found in (("workers", workers), ("engines", engines))
    }
    assert assignment(place, plan, [4, 5, 6]) == {11: 4, 12: 5, 13: 6, 21: 4, 22: 5}
    with pytest.raises(SystemExit, match="3 slots"):
        assignment(place, plan, [0, 1])


def test_the_page_shows_the_results_that_are_there() -> None:
    stored = json.loads((ROOT / "benchmarks/results/trainer.json").read_text())
    assert table(stored) in (ROOT / "docs/benchmarks.md").read_text()
