#!/usr/bin/env python3
"""`make demo`: from a fresh clone to a trained tiny model. Says first what will happen, then does it.

Runs under the machine's own Python, before anything is installed: standard library only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from trainer_env import MEASURED, environment_path

ROOT = Path(__file__).resolve().parent.parent
JOB = ROOT / "examples" / "quickstart-cpu.yaml"
RISEN = 0.3


def main() -> int:
    ready = environment_path("cpu").is_dir()
    environment = "on this machine already" if ready else f"once per machine: {MEASURED['cpu']}"
    print(f"""\
PPO with the actor on one Ray node and the critic on another, on this machine's CPU: real verl, FSDP and vLLM.

  1. environment   torch, vLLM, verl, Ray from PyPI; {environment}
  2. toy           a random model of 0.5 million parameters and sums of two digits, made here; nothing from a hub
  3. training      40 steps; it learns to answer in digits. Took 2 minutes on 2 busy cores, 40 s of it to start

Takes 4 GB of memory while it trains. Ctrl-C stops everything. `split-ppo plan {JOB.relative_to(ROOT)}` draws the placement.
""", flush=True)  # fmt: skip
    started = time.monotonic()
    if subprocess.run(
        ["make", "--no-print-directory", "install-trainer-cpu", f"PYTHON={sys.executable}"], cwd=ROOT
    ).returncode:
        return 1
    folder = free_folder()
    command = [str(ROOT / ".venv" / "bin" / "split-ppo"), "run", str(JOB), "--output", str(folder), "--curve"]
    code = subprocess.run(command, cwd=ROOT).returncode
    if code:
        return code
    reward = json.loads((folder / "summary.json").read_text())["reward"]
    print(f"\n{time.monotonic() - started:.0f} s in all.", end=" ")
    if reward["last"] - reward["first"] < RISEN:
        print(f"The mean reward has not risen ({reward['first']:.2f} to {reward['last']:.2f}): something is wrong.")
        return 1
    print(f"The mean reward rose from {reward['first']:.2f} to {reward['last']:.2f}.")
    print(f"Compare with one pool: .venv/bin/split-ppo run {JOB.relative_to(ROOT)} --mode Colocated")
    return 0


def free_folder() -> Path:
    """runs/demo, or the first numbered one that no run has used."""
    candidates = (ROOT / "runs" / ("demo" if number == 1 else f"demo-{number}") for number in range(1, 10_000))
    return next(folder for folder in candidates if not (folder / "events.jsonl").exists())


if __name__ == "__main__":
    sys.exit(main())
