"""`make bench-trainer`: what split placement is worth on this machine, measured.

A scenario is something to train. It is run split, where the overlap levels take turns within one run, a block of steps each, and
on one pool; both are repeated in rounds, so that a slow minute of the machine does not hit one variant alone. Every worker is
pinned to the core of its slot. A run that is there already is not repeated: stop and go on as you like.

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
from pathlib import Path
from typing import Any

from trainer_machine import stolen_since, together_over_alone
from trainer_pinning import pin_workers
from trainer_results import BLOCK, RUNS, SCENARIOS, STOLEN, TOGETHER, results, table, turns_of

from split_ppo_trainer.overlap import TURNS

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "benchmarks/results/trainer.json", ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- trainer: written by make bench-trainer -->", "<!-- /trainer -->"
CYCLES = 2  # of a run in which levels take turns
STEPS = 8  # of a run on one pool or of one level
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
    known = [f"{scenario}.{mode}" for scenario, modes in SCENARIOS.items() for mode in modes]
    parser.add_argument(
        "--only", action="append", choices=known, metavar="SCENARIO.MODE", help=f"of {', '.join(known)}"
    )
    parser.add_argument("--prefix", default="", help="put before each run's command, such as a lock")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, arguments.rounds + 1):
        if not (together := arguments.folder / f"{TOGETHER}.{number}").exists():
            together.write_text(f"{together_over_alone():.3f}")
        for scenario, modes in SCENARIOS.items():
            for mode in modes:
                folder = arguments.folder / f"{scenario}.{mode}.{number}"
                wanted = not arguments.only or f"{scenario}.{mode}" in arguments.only
                if wanted and not (folder / "summary.json").exists():
                    run(folder, scenario, mode, prefix=arguments.prefix.split())
    found = results(arguments.folder)
    arguments.results.parent.mkdir(exist_ok=True)
    arguments.results.write_text(json.dumps(found, indent=2) + "\n")
    if arguments.results == RESULTS:
        before, _, rest = DOCS.read_text().partition(BEGIN)
        DOCS.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.partition(END)[2]}")
    print(table(found))


def run(folder: Path, scenario: str, mode: str, *, prefix: list[str]) -> None:
    """One run, from start to end; a failed one ends the benchmark."""
    shutil.rmtree(folder, ignore_errors=True)
    job = folder.with_name(f"{folder.name}.json")  # JSON is YAML
    job.write_text(json.dumps(job_of(scenario)))
    levels = turns_of(scenario, mode).levels
    steps = STEPS if len(levels) == 1 else CYCLES * BLOCK * len(levels)
    options = ["--output", str(folder), "--steps", str(steps), *RUNS[mode]]
    turns = {} if len(levels) == 1 else {TURNS: f"{','.join(SCENARIOS[scenario][mode])}:{BLOCK}"}
    started, stolen = time.monotonic(), stolen_since()
    print(f"{folder.name} …", end=" ", flush=True)
    with folder.with_name(f"{folder.name}.log").open("w") as log:
        training = subprocess.Popen(
            [*prefix, sys.executable, "-m", "split_ppo", "run", str(job), *options],
            stdout=log,
            stderr=log,
            # Ray makes its workers give way to everything else on the machine, which here would be measured with them.
            env={**os.environ, **turns, "RAY_worker_niceness": "0"},
        )
        pin_workers(folder, training, cores=sorted(os.sched_getaffinity(0)))
        code = training.wait()
    if code:
        sys.exit(f"the run failed with {code}; see {log.name}")
    (folder / STOLEN).write_text(f"{stolen():.4f}")
    print(f"{time.monotonic() - started:.0f} s, {stolen():.1%} stolen")


if __name__ == "__main__":
    main()
