"""What a person sees of a run: a stage with its clock, then a bar, at the end a table. Plain lines where nobody watches.

Fed with the events of events.jsonl; formats, decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from split_ppo_trainer.summary import Summary

# Shown in the bar, in the order of a step; what is short everywhere is left to the table.
BAR_PHASES = {
    "gen": "gen", "old_log_prob": "logp", "ref": "ref", "values": "values",
    "update_actor": "actor", "update_critic": "critic", "update_weights": "sync",
}  # fmt: skip


class Display(Protocol):
    """Takes a run's events one by one."""

    def show(self, event: Mapping[str, Any]) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


def display_for(console: Console) -> Display:
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


class PlainDisplay:
    """One line per event, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console, self._started = console, time.monotonic()

    def show(self, event: Mapping[str, Any]) -> None:
        if event["event"] in ("stage", "move"):
            self.say(str(event["message"]))
        elif event["event"] == "step":
            self.say(step_line(event))
            if event.get("pools"):
                self.say("   " + pool_facts(event["pools"]))

    def say(self, text: str) -> None:
        clock = f"{time.monotonic() - self._started:6.0f}s"
        self._console.print(f"{clock}  {text}", soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        """Nothing is open."""


class LiveDisplay:
    """A spinner with the stage and its clock until the first step, then a bar."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
        )
        self._bar = Progress(
            TextColumn("[bold]step"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
        )
        self._shown = self._stage
        self._task: TaskID = self._stage.add_task("Starting", total=None)
        self._live = Live(self._stage, console=console, refresh_per_second=8, transient=False)
        self._live.start()

    def show(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "stage":
            if self._shown is self._stage:
                self._stage.update(self._task, description=escape(str(event["message"])))
        elif event["event"] == "move":
            self.say(str(event["message"]))
        elif event["event"] == "step":
            if self._shown is self._stage:
                self._shown = self._bar
                self._task = self._bar.add_task("", total=event["total_steps"])
            facts = pool_facts(event.get("pools") or {})
            self._live.update(Group(self._bar, Text(facts, style="dim")) if facts else self._bar)
            self._bar.update(self._task, completed=event["step"], description=escape(step_facts(event)))

    def say(self, text: str) -> None:
        self._live.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        if self._shown is self._stage:
            self._live.update("", refresh=True)
        self._live.stop()


def step_line(event: Mapping[str, Any]) -> str:
    return f"step {event['step']}/{event['total_steps']}  {step_facts(event)}"


def step_facts(event: Mapping[str, Any]) -> str:
    """Reward, seconds of the step and of its phases, and how near the overlap is to the best there could be."""
    facts = []
    if event.get("reward") is not None:
        facts.append(f"reward {event['reward']:.3f}")
    seconds: Mapping[str, float] = event.get("seconds") or {}
    if "step" in seconds:
        phases = " ".join(f"{name} {seconds[key]:.1f}" for key, name in BAR_PHASES.items() if key in seconds)
        facts.append(f"{seconds['step']:.1f} s ({phases})")
    if event.get("overlap_efficiency") is not None:
        facts.append(f"overlap {event['overlap_efficiency']:.0%}")
    return "  ".join(facts)


def pool_facts(pools: Mapping[str, Mapping[str, float]]) -> str:
    """`actor busy 92%, waited 0.2 s, 410 tokens/s, 1.2 GB · critic …`."""
    words = {
        "busy_share": "busy {:.0%}", "wait_s": "waited {:.1f} s", "tokens_per_s": "{:.0f} tokens/s", "memory_gb": "{:.1f} GB",
    }  # fmt: skip
    return " · ".join(
        f"{pool} " + ", ".join(text.format(used[name]) for name, text in words.items() if name in used)
        for pool, used in sorted(pools.items())
    )


def placement_table(workers: Sequence[Mapping[str, Any]], nodes: int | None = None) -> Table:
    """Who sits where: one row per pool and role."""
    table = Table(title="Who sits where", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in ("pool", "Ray resource", "role", "ranks", "node"):
        table.add_column(column)
    rows: dict[tuple[str, ...], int] = {}
    for worker in workers:
        key = (str(worker["pool"]), str(worker["resource"]), str(worker["role"]), str(worker["node_id"])[:8])
        rows[key] = rows.get(key, 0) + 1
    for (pool, resource, role, node), ranks in rows.items():
        table.add_row(pool, resource, role, str(ranks), node)
    return table


def summary_table(summary: Summary) -> Table:
    """The run in a table: rewards, and the median seconds of each phase."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("steps", f"{summary.steps}/{summary.total_steps}", attempts_words(len(summary.attempts)))
    if summary.first_reward is not None and summary.last_reward is not None:
        table.add_row("reward", f"{summary.first_reward:.3f} → {summary.last_reward:.3f}", "first and last step")
    for phase, seconds in summary.median_seconds.items():
        table.add_row(phase, f"{seconds:.2f} s", "median" if phase == "step" else "")
    if summary.overlap_efficiency is not None:
        table.add_row("overlap", f"{summary.overlap_efficiency:.0%}", "shortest possible step ÷ measured")
    for pool, used in summary.pools.items():
        share, facts = used.get("busy_share"), {name: value for name, value in used.items() if name != "busy_share"}
        busy = "" if share is None else f"{share:.0%} busy"
        table.add_row(f"{pool} pool", busy, pool_facts({"": facts}).strip())
    return table


def attempts_words(count: int) -> str:
    return "" if count <= 1 else f"{count} attempts"


BLOCKS = " ▁▂▃▄▅▆▇█"


def curve(values: Sequence[float], *, width: int = 60, height: int = 8) -> list[str]:
    """A curve in `height` rows of block characters, the lowest and highest value beside it."""
    if not values:
        return []
    columns = resample(values, min(width, len(values)))
    low, high = min(columns), max(columns)
    span = (high - low) or 1.0
    rows = []
    for row in reversed(range(height)):
        cells = ""
        for value in columns:
            filled = (value - low) / span * (height - 1 / 8) + 1 / 8  # the lowest still shows
            cells += BLOCKS[round(8 * min(max(filled - row, 0.0), 1.0))]
        label = f"{high:6.2f} ┤" if row == height - 1 else f"{low:6.2f} ┤" if row == 0 else "       │"
        rows.append(label + cells)
    return rows


def resample(values: Sequence[float], count: int) -> list[float]:
    """Means of `count` equal stretches."""
    edges = [round(index * len(values) / count) for index in range(count + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
