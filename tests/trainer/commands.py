"""`python -m split_ppo_trainer` as a user or the operator starts it: a process of its own, its files, its exit status."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from split_ppo.runplan import RunPlan

LONGEST_S = 600
# What has to come out the same, step by step, however often a training was interrupted.
SAME = (
    "actor/pg_loss",
    "actor/grad_norm",
    "critic/vf_loss",
    "critic/grad_norm",
    "critic/values/mean",
    "critic/score/mean",
)


class Trainer:
    """A running trainer, its event log as it grows, and how it ended."""

    def __init__(self, plan: RunPlan, output: Path, *options: str, address: str | None = None) -> None:
        output.mkdir(parents=True, exist_ok=True)
        plan_file = output / "plan.json"
        plan_file.write_text(plan.to_json())
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        if address is not None:
            environment["RAY_ADDRESS"] = address
        command = [sys.executable, "-m", "split_ppo_trainer", "--plan", plan_file, "--output", output, *options]
        self.output = output
        self._log = (output / "log.txt").open("wb")
        self.process = subprocess.Popen(
            list(map(str, command)), env=environment, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def wait(self) -> int:
        try:
            return self.process.wait(LONGEST_S)
        finally:
            self.process.kill()
            self._log.close()

    def wait_for(self, happened: Callable[[dict[str, Any]], bool]) -> bool:
        """True once an event that `happened` likes was written; False when the trainer ended without."""
        ended = threading.Event()
        threading.Thread(target=lambda: (self.process.wait(), ended.set()), daemon=True).start()
        while not any(happened(event) for event in self.events()):
            if ended.wait(0.2):
                return any(happened(event) for event in self.events())
        return True

    def wait_for_another_step(self) -> bool:
        last = max(self.metrics(), default=0)
        return self.wait_for(lambda event: event["event"] == "step" and event["step"] > last)

    def events(self) -> list[dict[str, Any]]:
        return _lines(self.output / "events.jsonl")

    def metrics(self) -> dict[int, dict[str, Any]]:
        return {line["step"]: line["metrics"] for line in _lines(self.output / "metrics.jsonl")}

    def last_line(self) -> str:
        return (self.output / "log.txt").read_text(errors="replace").rstrip().splitlines()[-1]

    def error(self) -> dict[str, Any]:
        """The one error of the run."""
        (error,) = [event for event in self.events() if event["event"] == "error"]
        return error


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
