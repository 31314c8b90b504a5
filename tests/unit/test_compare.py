"""Runs side by side, from folders as the trainer writes them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from run_folders import run_plan, write_run
from split_ppo.cli.main import cli
from split_ppo.compare.figures import WorkerFigures, figures
from split_ppo.compare.run_record import NotARun, read_run, read_runs
from split_ppo.compare.table import worker_rows
from split_ppo.compare.timeline import timeline
from split_ppo.compare.verdict import differences, verdicts
from split_ppo_trainer.progress import append_line


def call(*args: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, args)])


def test_medians_leave_the_slow_first_step_out(tmp_path: Path) -> None:
    found = figures(read_run(write_run(tmp_path / "a", run_plan())))
    assert (found.step, found.seconds["gen"], found.steps, found.timed_steps) == (pytest.approx(12.5), 4.0, 8, 7)
    assert (found.first_reward, found.last_reward) == (0.125, 1.0)
    assert found.pools["actor"].busy_share == pytest.approx(8.5 / 12.5)
    assert found.pools["critic"].busy_share == pytest.approx(4 / 12.5)
    assert found.pools["critic"].memory_gb == 1.5
    assert found.pools["critic"].workers == {"rank-0": WorkerFigures(busy_share=0.75, memory_gb=1.5)}


def test_a_difference_beyond_the_spread_is_clear(tmp_path: Path) -> None:
    slow = figures(read_run(write_run(tmp_path / "slow", run_plan(), jitter=0.2)))
    fast = figures(read_run(write_run(tmp_path / "fast", run_plan(overlap="NextGeneration"))))
    (verdict,) = verdicts([slow, fast])
    assert (verdict.fastest, verdict.other, verdict.clear) == ("fast", "slow", True)
    assert verdict.ratio == pytest.approx(12.5 / 8.5)
    assert "8.50 s a step against 12.50 s, 1.47 times as fast" in verdict.sentence()
    assert "larger than the runs' own spread (0.20 s)" in verdict.sentence()


def test_a_difference_within_the_spread_may_be_chance(tmp_path: Path) -> None:
    noisy = figures(read_run(write_run(tmp_path / "noisy", run_plan(), jitter=3.0)))
    other = figures(read_run(write_run(tmp_path / "other", run_plan(), seconds={**SHORTER})))
    (verdict,) = verdicts([noisy, other])
    assert not verdict.clear
    assert "it may be chance" in verdict.sentence()


SHORTER = {"gen": 3.8, "old_log_prob": 1.0, "values": 1.0, "adv": 0.0, "update_actor": 3.0, "update_critic": 3.0,
           "update_weights": 0.5}  # fmt: skip


def test_few_steps_say_nothing(tmp_path: Path) -> None:
    runs = [
        figures(read_run(write_run(tmp_path / level, run_plan(overlap=level), steps=3))) for level in ("None", "Update")
    ]
    assert "too few to say" in verdicts(runs)[0].sentence()


def test_settings_that_differ_are_told_and_places_are_not(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", run_plan())
    two = write_run(tmp_path / "two", run_plan(batch=32))
    runs = read_runs([one, two])
    found = differences(runs)
    assert any(line.startswith("data.train_batch_size differs: one 64, two 32") for line in found)
    assert differences(read_runs([one, write_run(tmp_path / "three", run_plan(overlap="Update"))])) == []


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / parent / "run", run_plan()) for parent in ("monday", "tuesday")]
    assert [run.name for run in read_runs(folders)] == ["monday/run", "tuesday/run"]


def test_the_timeline_shows_who_waited(tmp_path: Path) -> None:
    drawn = timeline(read_run(write_run(tmp_path / "a", run_plan())))
    assert drawn is not None
    assert drawn.seconds == pytest.approx(3 * 12.5)
    actor, critic = drawn.lanes
    assert (actor.idle_share, critic.idle_share) == (pytest.approx(4 / 12.5), pytest.approx(8.5 / 12.5))
    assert [piece.name for piece in critic.pieces] == ["values", "update_critic"] * 3


def test_a_critic_that_runs_on_is_cut_at_the_edges(tmp_path: Path) -> None:
    longer = {"gen": 4.0, "old_log_prob": 1.0, "values": 1.0, "adv": 0.0, "update_actor": 3.0, "update_critic": 5.0,
              "update_weights": 0.5}  # fmt: skip
    drawn = timeline(read_run(write_run(tmp_path / "a", run_plan(overlap="NextGeneration"), seconds=longer)))
    assert drawn is not None
    critic = drawn.lanes[1]
    assert critic.pieces[0].name == "update_critic"  # of the step before the window
    assert critic.pieces[0].begin == 0
    assert critic.idle_share == pytest.approx(1 - 6 / 8.5)


def test_the_table_and_the_sentence(tmp_path: Path) -> None:
    write_run(tmp_path / "split", run_plan(overlap="NextGeneration"))
    write_run(tmp_path / "one-pool", run_plan(actor=2, critic=0))
    result = call(tmp_path / "split", tmp_path / "one-pool")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].split() == ["split", "one-pool"]
    assert any("actor 1 + critic 1, NextGeneration" in line and "Colocated 2" in line for line in lines)
    assert any(line.split() == ["step,", "s", "8.50", "12.50"] for line in lines)
    assert "split was faster than one-pool" in result.output


def test_each_worker_has_a_row_and_many_share_one(tmp_path: Path) -> None:
    write_run(tmp_path / "few", run_plan(actor=2, critic=1))
    write_run(tmp_path / "many", run_plan(actor=16, critic=16))
    few = [line.split() for line in call(tmp_path / "few").output.splitlines()]
    assert ["actor", "rank-0", "75%", "busy,", "1.50", "GB"] in few
    assert ["actor", "rank-1", "75%", "busy,", "1.50", "GB"] in few
    assert ["critic", "rank-0", "75%", "busy,", "1.50", "GB"] in few
    both = [line.split() for line in call(tmp_path / "few", tmp_path / "many").output.splitlines()]
    assert [line for line in both if line[1:2] == ["ranks"]] == [
        ["actor", "ranks", *["75%", "busy,", "1.50", "GB"] * 2],
        ["critic", "ranks", *["75%", "busy,", "1.50", "GB"] * 2],
    ]


def test_workers_are_in_order_whoever_has_more_of_them() -> None:
    some = WorkerFigures(0.5, 1.0)
    runs = [{"rank-0": some, "server-0": some}, {f"rank-{number}": some for number in (10, 2)}]
    labels = [label for label, _ in worker_rows("actor", runs)]
    assert labels == ["  actor rank-0", "  actor rank-2", "  actor rank-10", "  actor server-0"]


def test_workers_that_differ_are_told_from_least_to_most() -> None:
    ranks = {f"rank-{number}": WorkerFigures(number / 10, float(number)) for number in range(1, 10)}
    silent = {"server-0": WorkerFigures(None, None), "server-1": WorkerFigures(0.5, None)}
    assert worker_rows("actor", [{**ranks, **silent}, {}]) == [
        ("  actor ranks", ["10% to 90% busy, 1.00 to 9.00 GB", ""]),
        ("  actor servers", ["50% busy", ""]),
    ]


def test_json_has_every_digit(tmp_path: Path) -> None:
    write_run(tmp_path / "a", run_plan())
    write_run(tmp_path / "b", run_plan(overlap="Update"))
    found = json.loads(call(tmp_path / "a", tmp_path / "b", "-o", "json").output)
    assert [run["name"] for run in found["runs"]] == ["a", "b"]
    assert found["runs"][1]["seconds"]["update_critic"] == 3.0
    assert found["runs"][0]["pools"]["actor"]["workers"]["rank-0"] == {"busy_share": 0.75, "memory_gb": 1.5}
    assert found["verdicts"][0]["clear"] is True


def test_runs_without_moments_compare_and_say_that_there_is_no_timeline(tmp_path: Path) -> None:
    write_run(tmp_path / "old", run_plan(), moments=False)
    result = call(tmp_path / "old", "--html", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    assert "did not write when its pieces began" in (tmp_path / "report.html").read_text()


def test_plots_are_png_files(tmp_path: Path) -> None:
    write_run(tmp_path / "a", run_plan())
    result = call(tmp_path / "a", "--plots", tmp_path / "plots")
    assert result.exit_code == 0, result.output
    for name in ("reward", "phases", "pools"):
        assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_steps_before_a_move_to_another_split_are_not_timed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", run_plan())
    append_line(folder / "events.jsonl", {"event": "move", "time": 0.0, "step": 4})
    found = figures(read_run(folder))
    assert (found.steps, found.timed_steps, found.first_reward) == (8, 3, 0.125)


def test_right_after_a_move_there_is_nothing_to_say_yet(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", run_plan())
    append_line(folder / "events.jsonl", {"event": "move", "time": 0.0, "step": 7})
    assert figures(read_run(folder)).step > 0, "one step on the new split is enough"
    append_line(folder / "events.jsonl", {"event": "move", "time": 0.0, "step": 8})
    result = call(folder)
    assert result.exit_code == 2
    assert "moved to another split at step 8 and has no finished step on it: ask again later." in result.output


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        '{"time": 0}',
        '{"event": "machine"}',
        '{"event": "machine", "cores": 2, "exchange": {"Critic": {"gather": 1}}}',
        '{"event": "machine", "cores": "two", "exchange": {}}',
    ],
)
def test_a_line_that_is_no_event_is_said(tmp_path: Path, line: str) -> None:
    folder = write_run(tmp_path / "a", run_plan())
    (folder / "events.jsonl").write_text(f"{line}\n")
    result = call(folder)
    assert result.exit_code == 2
    assert "events.jsonl has a line that is no event of a run" in result.output


def test_a_folder_without_a_run_is_said(tmp_path: Path) -> None:
    assert call(tmp_path / "nowhere").output == f"There is no folder {tmp_path / 'nowhere'}.\n"
    result = call(tmp_path)
    assert result.exit_code == 2
    assert "has no plan.json" in result.output
    write_run(tmp_path / "empty", run_plan(), steps=0)
    with pytest.raises(NotARun, match="no finished step"):
        read_run(tmp_path / "empty")
