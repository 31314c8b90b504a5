"""What a run came to, from the lines it wrote."""

import json
from pathlib import Path
from typing import Any

from split_ppo_trainer.summary import Step, attempts_from, read_lines, summarise


def step(number: int, *, reward: float | str = 0.5, seconds: float = 1.0, total: int = 4) -> Step:
    metrics: dict[str, Any] = {"critic/score/mean": reward, "timing_s/step": seconds, "split/overlap_efficiency": 0.9}
    metrics |= {"split/pool/actor/busy_share": 0.5, "split/pool/actor/wait_s": seconds / 2}
    return Step.from_record({"step": number, "total_steps": total, "metrics": metrics})


def test_rewards_and_medians_without_the_first_step() -> None:
    found = summarise([step(1, reward=0.1, seconds=60), step(2, seconds=2), step(3, reward=0.7, seconds=4)], [])
    assert (found.steps, found.total_steps) == (3, 4)
    assert (found.first_reward, found.last_reward, found.best_reward) == (0.1, 0.7, 0.7)
    assert found.median_seconds == {"step": 3.0}
    assert found.overlap_efficiency == 0.9
    assert found.pools == {"actor": {"busy_share": 0.5, "wait_s": 1.5}}


def test_a_single_step_has_to_do() -> None:
    assert summarise([step(1, seconds=60)], []).median_seconds == {"step": 60}


def test_a_step_done_again_after_a_resume_counts_once_as_done_last() -> None:
    found = summarise([step(1), step(2), step(3, reward=0.9), step(3, reward=0.4)], [])
    assert (found.steps, found.last_reward, found.best_reward) == (3, 0.4, 0.5)


def test_nothing_done() -> None:
    assert json.loads(summarise([], []).to_json()) == {
        "steps": 0,
        "total_steps": 0,
        "reward": {"first": None, "last": None, "best": None},
        "median_seconds": {},
        "overlap_efficiency": None,
        "pools": {},
        "attempts": [],
    }


def test_nan_is_no_number() -> None:
    assert step(1, reward="nan").reward is None


def test_attempts_tell_what_each_did_and_how_it_ended() -> None:
    events = [
        {"event": "attempt", "time": 1.0, "resumed": False},
        {"event": "step", "time": 2.0, "step": 1},
        {"event": "step", "time": 3.0, "step": 2},
        {"event": "attempt", "time": 4.0, "resumed": True},
        {"event": "step", "time": 5.0, "step": 2},
        {"event": "error", "time": 6.0, "reason": "WorkerDied", "message": "It died."},
        {"event": "end", "time": 7.0, "outcome": "Failed"},
    ]
    first, second = attempts_from(events)
    assert (first["outcome"], first["first_step"], first["last_step"], first["finished"]) == ("Lost", 1, 2, None)
    assert (second["outcome"], second["resumed"], second["first_step"]) == ("Failed", True, 2)
    assert (second["message"], second["finished"]) == ("It died.", 7.0)


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step":1}\n{"step":2}\n{"st')
    assert read_lines(file) == [{"step": 1}, {"step": 2}]
    assert read_lines(tmp_path / "none.jsonl") == []
