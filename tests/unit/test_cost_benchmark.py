"""The benchmark's own arithmetic, on runs whose ratios are known."""

from pathlib import Path

import pytest

from benchmarks.trainer_pinning import assignment
from benchmarks.trainer_results import results, table
from run_folders import SECONDS, run_plan, write_run

LEVELS = {"none": "None", "update": "Update", "inference": "Inference", "next_generation": "NextGeneration"}


def finished(folder: Path, name: str, **run: object) -> None:
    write_run(folder / name, **run)  # type: ignore[arg-type]
    (folder / name / "summary.json").write_text("{}")


def test_ratios_and_predictions_of_known_runs(tmp_path: Path) -> None:
    for number in (1, 2):
        for variant, level in LEVELS.items():
            finished(tmp_path, f"equal_models.{variant}.{number}", plan=run_plan(overlap=level))
        halves = {name: took / 2 for name, took in SECONDS.items()} | {"update_weights": 0.5}
        finished(tmp_path, f"equal_models.colocated.{number}", plan=run_plan(actor=2, critic=0), seconds=halves)
    found = results(tmp_path)
    ratios = {name: row["value"] for name, row in found["ratios"].items()}
    assert ratios["update_pair_over_limit"] == pytest.approx(1.0, abs=1e-3)
    assert ratios["none_over_best"] == pytest.approx(12.5 / 8.5, abs=1e-3)
    assert ratios["colocated_over_best"] == pytest.approx(6.5 / 8.5, abs=1e-3)
    assert found["ratios"]["none_over_best"]["met"] is False
    assert (
        found["scenarios"]["equal_models"]["none"]["timed_steps"] == 12
    )  # two rounds of eight, first and last left out
    exact = [row for row in found["predictions"] if row["from"] == "none" and row["to"] != "colocated"]
    assert [row["ratio"] for row in exact] == [pytest.approx(1.0, abs=1e-3)] * 3
    assert "| `none_over_best` | 1.47 | 1.47, 1.47 | >= 1.5 | missed |" in table(found)


def test_every_slot_has_its_core() -> None:
    plan = {"placement": {"pools": [{"name": "actor", "gpus": [2]}, {"name": "critic", "gpus": [1]}]}}
    workers = [("actor", 0, 11), ("actor", 1, 12), ("critic", 0, 13)]
    place = {"workers": [{"pool": pool, "rank": rank, "pid": pid} for pool, rank, pid in workers]}
    assert assignment(place, plan, [4, 5, 6]) == {11: 4, 12: 5, 13: 6}
    with pytest.raises(SystemExit, match="3 slots"):
        assignment(place, plan, [0, 1])
