"""A core for every slot: what a pool's worker does, it does on its own core, as a GPU would have it.

Slots are numbered pool after pool; slot n gets core n, for the rank, for the rollout server on it and for the server's engine,
which computes in a process of its own. What would not run on a GPU either (driver, data queue, agent loops, Ray's own
processes) stays free and runs where a core is idle.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any


def pin_workers(folder: Path, run: subprocess.Popen[Any], *, cores: list[int]) -> None:
    """Wait for the run to say who is where, then pin them; returns when that is done or the run has ended."""
    while True:
        try:
            run.wait(0.5)
            return
        except subprocess.TimeoutExpired:
            pass
        if (place := placement(folder)) is not None:
            for pid, core in assignment(place, json.loads((folder / "plan.json").read_text()), cores).items():
                pin(pid, core)
            return


def placement(folder: Path) -> dict[str, Any] | None:
    """The `placement` event of a run, once it is there."""
    try:
        lines = (folder / "events.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return None
    return next((event for line in lines if (event := json.loads(line))["event"] == "placement"), None)


def assignment(place: dict[str, Any], plan: dict[str, Any], cores: list[int]) -> dict[int, int]:
    """Core of each process. Pure."""
    first, slots = {}, 0
    for pool in plan["placement"]["pools"]:
        first[pool["name"]] = slots
        slots += sum(pool["gpus"])
    if slots > len(cores):
        raise SystemExit(f"The benchmark pins {slots} slots to a core each; this machine has {len(cores)} cores.")
    pinned = [*place["workers"], *place["engines"]]
    return {process["pid"]: cores[first[process["pool"]] + process["rank"]] for process in pinned}


def pin(pid: int, core: int) -> None:
    """Every thread of a process; threads it starts later inherit it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})
