"""`make bench-trainer`: what split placement is worth on this machine, measured.

A scenario is something to train. It is trained split, where the overlap levels take turns within one run, a block of steps each,
and on one pool. Both runs take turns as well, so that a slow minute of the machine does not hit one variant alone, and are
repeated in rounds. Every worker is pinned to the core of its slot. What is there already is not repeated: stop and go on as you
like.

    python benchmarks/trainer.py --folder runs/bench --rounds 3         run what is missing, then write the results
    python benchmarks/trainer.py --folder runs/bench --rounds 0         only write the results of what is there
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from trainer_machine import stolen_since, together_over_alone
from trainer_pinning import pin_workers
from trainer_results import BLOCK, RUNS, SCENARIOS, STOLEN, TOGETHER, results, table, turns_of
from trainer_turns import Turn, take_turns

from split_ppo_trainer.overlap import TURNS

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "benchmarks/results/trainer.json", ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- trainer: written by make bench-trainer -->", "<!-- /trainer -->"
CYCLES = 2  # of a run in which levels take turns
BLOCKS = 4  # of a run on one pool or of one level
JOB: dict[str, Any] = {
    "apiVersion": "splitppo.io/v1alpha1",
    "kind": "SplitPPOJob",
    "metadata": {"name": "bench"},
    "spec": {
        "placement": {
            "device": "CPU",
            "pools": {"actor": {"nodes": 1, "gpusPerNode": 1}, "critic": {"nodes": 1, "gpusPerNode": 1}},
        },
        "training": {
            "model": {"actor": "toy://digits-30m/model", "critic": "toy://digits-30m/model"},
            "data": {"train": ["toy://digits-30m/train.parquet"], "maxPromptLength": 64, "maxResponseLength": 48},
            "reward": {"function": {"path": "toy://digits-30m/reward.py"}},
            "batchSize": 16,
            "miniBatchSize": 16,
            "microBatchSizePerGPU": 8,
            "learningRate": {"actor": 1e-5, "critic": 1e-5},
            "seed": 1,
            # Levels take turns, so each has steps of its own: every response has the same length, or one would have less to do.
            "config": {
                "actor_rollout_ref": {"rollout": {"max_model_len": 128, "max_num_seqs": 64, "ignore_eos": True}}
            },
        },
        "storage": {"everySteps": 1000},
    },
}


def job_of(scenario: str) -> dict[str, Any]:
    """The job of a scenario."""
    job = deepcopy(JOB)
    training = job["spec"]["training"]
    if scenario == "two_critic_epochs":
        training["config"]["critic"] = {"ppo_epochs": 2}
    if scenario == "small_critic":
        training["model"]["critic"] = "toy://digits/model"
    return job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go, or are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="a scenario; may be repeated")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, arguments.rounds + 1):
        if not (together := arguments.folder / f"{TOGETHER}.{number}").exists():
            together.write_text(f"{together_over_alone():.3f}")
        for scenario in arguments.only or SCENARIOS:
            run(arguments.folder, scenario, number)
    found = results(arguments.folder)
    arguments.results.parent.mkdir(exist_ok=True)
    arguments.results.write_text(json.dumps(found, indent=2) + "\n")
    if arguments.results == RESULTS:
        before, _, rest = DOCS.read_text().partition(BEGIN)
        DOCS.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.partition(END)[2]}")
    print(table(found))


def run(folder: Path, scenario: str, number: int) -> None:
    """A scenario's runs of a round, in turn, unless all are there; a failed one ends the benchmark."""
    runs = {mode: folder / f"{scenario}.{mode}.{number}" for mode in SCENARIOS[scenario]}
    if all((path / "summary.json").exists() for path in runs.values()):
        return
    blocks = {mode: blocks_of(scenario, mode) for mode in runs}
    turns = [
        Turn(path, partial(start, path, scenario, mode), steps=BLOCK * blocks[mode] // min(blocks.values()))
        for mode, path in runs.items()
    ]
    started, stolen = time.monotonic(), stolen_since()
    print(f"{scenario}, round {number} …", end=" ", flush=True)
    take_turns(turns)
    for path in runs.values():
        (path / STOLEN).write_text(f"{stolen():.4f}")
    print(f"{time.monotonic() - started:.0f} s, {stolen():.1%} stolen")


def blocks_of(scenario: str, mode: str) -> int:
    levels = len(turns_of(scenario, mode).levels)
    return BLOCKS if levels == 1 else CYCLES * levels


def start(folder: Path, scenario: str, mode: str) -> subprocess.Popen[bytes]:
    """A run whose workers are on their cores."""
    shutil.rmtree(folder, ignore_errors=True)
    job = folder.with_name(f"{folder.name}.json")  # JSON is YAML
    job.write_text(json.dumps(job_of(scenario)))
    levels = SCENARIOS[scenario][mode]
    options = ["--output", str(folder), "--steps", str(BLOCK * blocks_of(scenario, mode)), *RUNS[mode]]
    turns = {} if len(levels) == 1 else {TURNS: f"{','.join(levels)}:{BLOCK}"}
    with folder.with_name(f"{folder.name}.log").open("w") as log:
        training = subprocess.Popen(
            [sys.executable, "-m", "split_ppo", "run", str(job), *options],
            stdout=log,
            stderr=log,
            # Ray makes its workers give way to everything else on the machine, which here would be measured with them.
            env={**os.environ, **turns, "RAY_worker_niceness": "0"},
        )
    pin_workers(folder, training, cores=sorted(os.sched_getaffinity(0)))
    return training


if __name__ == "__main__":
    main()
