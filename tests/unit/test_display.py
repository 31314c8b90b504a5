"""What a person sees of a run."""

import io
from typing import Any

import pytest
from rich.console import Console

from split_ppo_trainer.display import LiveDisplay, PlainDisplay, curve, display_for, placement_table, step_facts
from split_ppo_trainer.summary import Summary

STEP: dict[str, Any] = {
    "event": "step",
    "step": 3,
    "total_steps": 40,
    "reward": 0.0441,
    "seconds": {
        "gen": 0.94,
        "old_log_prob": 0.3,
        "values": 0.2,
        "update_actor": 0.5,
        "update_critic": 0.4,
        "step": 1.8,
    },
    "overlap_efficiency": 0.917,
    "pools": {
        "critic": {"busy_share": 0.6, "wait_s": 0.72, "tokens_per_s": 900.4, "memory_gb": 0.44},
        "actor": {"busy_share": 0.97, "memory_gb": 1.25},
    },
    "checkpoint": None,
}
STAGE = {"event": "stage", "stage": "ray", "message": "Starting Ray [here]."}


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=160, color_system=None), text


def test_a_step_in_one_line() -> None:
    expected = "reward 0.044  1.8 s (gen 0.9 logp 0.3 values 0.2 actor 0.5 critic 0.4)  overlap 92%"
    assert step_facts(STEP) == expected


def test_what_is_not_known_is_left_out() -> None:
    assert step_facts({"event": "step", "step": 1, "total_steps": 2, "reward": None, "seconds": {}}) == ""


def test_plain_lines_where_nobody_watches() -> None:
    out, text = console(terminal=False)
    display = display_for(out)
    assert isinstance(display, PlainDisplay)
    for event in (STAGE, {"event": "placement", "workers": []}, STEP):
        display.show(event)
    first, second, third = text.getvalue().splitlines()
    assert first.endswith("s  Starting Ray [here].")
    assert "step 3/40  reward 0.044" in second
    assert third.endswith("actor busy 97%, 1.2 GB · critic busy 60%, waited 0.7 s, 900 tokens/s, 0.4 GB")


def test_a_terminal_gets_a_stage_and_then_a_bar() -> None:
    out, text = console(terminal=True)
    display = display_for(out)
    assert isinstance(display, LiveDisplay)
    display.show(STAGE)
    display.show(STEP)
    display.close()
    shown = text.getvalue()
    assert "3/40" in shown
    assert "reward 0.044" in shown


def test_who_sits_where_counts_ranks() -> None:
    worker = {"role": "ActorRollout", "pool": "actor", "resource": "actor_pool", "node_id": "abcdef0123", "rank": 0}
    out, text = console(terminal=False)
    out.print(placement_table([worker, {**worker, "rank": 1}, {**worker, "role": "Critic", "pool": "critic"}]))
    rows = [line.split() for line in text.getvalue().splitlines()[2:]]
    assert rows == [
        ["actor", "actor_pool", "ActorRollout", "2", "abcdef01"],
        ["critic", "actor_pool", "Critic", "1", "abcdef01"],
    ]


@pytest.mark.parametrize("values", [[0.5], [0.1, 0.1, 0.1], [0.0, 1.0], [float(n) for n in range(500)]])
def test_a_curve_fits_and_rises_where_its_values_do(values: list[float]) -> None:
    rows = curve(values, width=40, height=6)
    assert len(rows) == 6
    assert all(len(row) <= 8 + 40 for row in rows)
    columns = ["".join(row[8:].ljust(40)[i] for row in rows) for i in range(min(40, len(values)))]
    heights = [sum(cell != " " for cell in column) for column in columns]
    assert heights == sorted(heights)
    assert min(heights) >= 1
    assert heights[-1] == (6 if values[-1] > values[0] else 1)


def test_no_curve_of_nothing() -> None:
    assert curve([]) == []


def test_summary_table_shows_both_rewards() -> None:
    from split_ppo_trainer.display import summary_table

    out, text = console(terminal=False)
    out.print(summary_table(Summary(40, 40, 0.03, 0.99, 0.99, {"gen": 0.9, "step": 1.9}, 0.92)))
    assert "0.030 → 0.990" in text.getvalue()
    assert "92%" in text.getvalue()
