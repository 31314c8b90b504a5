"""From the runs of the benchmark to its ratios. Medians over every timed step of every round; the spread of a ratio is that of
its rounds."""

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from split_ppo.compare.figures import quartile_distance
from split_ppo.compare.run_record import RunRecord, StepRecord, read_run
from split_ppo.placement.cost import Measured, fit

VARIANTS = {
    "colocated": ["--mode", "Colocated"],
    "none": ["--overlap", "None"],
    "update": ["--overlap", "Update"],
    "inference": ["--overlap", "Inference"],
    "next_generation": ["--overlap", "NextGeneration"],
}
SCENARIOS = {
    "equal_models": list(VARIANTS),
    "two_critic_epochs": ["update", "next_generation"],
    "small_critic": ["colocated", "next_generation"],
}
TARGETS = {
    "update_pair_over_limit": ("<=", 1.05),
    "step_over_limit": ("<=", 1.10),
    "none_over_best": (">=", 1.5),
    "colocated_over_best": None,
    "update_over_next_two_critic_epochs": (">=", 1.3),
}
PIECES = ("gen", "old_log_prob", "values", "adv", "update_critic", "update_actor", "update_weights")
Rounds = list[RunRecord]


def results(folder: Path) -> dict[str, Any]:
    """Everything that trainer.json holds."""
    runs = read_all(folder)
    cells = {
        scenario: {variant: cell(rounds) for variant, rounds in variants.items()} for scenario, variants in runs.items()
    }
    return {
        "machine": {"cores": os.cpu_count(), "processor": processor(), "python": platform.python_version()},
        "ratios": ratios(runs),
        "scenarios": cells,
        "predictions": predictions(runs),
    }


def read_all(folder: Path) -> dict[str, dict[str, Rounds]]:
    """Finished runs by scenario and variant."""
    found: dict[str, dict[str, Rounds]] = {}
    for scenario, variants in SCENARIOS.items():
        for variant in variants:
            done = sorted(p.parent for p in folder.glob(f"{scenario}.{variant}.*/summary.json"))
            if done:
                found.setdefault(scenario, {})[variant] = [read_run(path) for path in done]
    return found


def timed(run: RunRecord) -> list[StepRecord]:
    """Without the first step, which warms up, and the last, which writes a checkpoint and waits for the critic."""
    return list(run.steps[1:-1])


def cell(rounds: Rounds) -> dict[str, Any]:
    steps = [step for run in rounds for step in timed(run)]
    seconds = {
        piece: round(median(v), 3) for piece in PIECES if (v := [s.seconds[piece] for s in steps if piece in s.seconds])
    }
    lengths = [step.seconds["step"] for step in steps]
    return {
        "rounds": len(rounds),
        "timed_steps": len(steps),
        "step_seconds": round(median(lengths), 3),
        "spread_seconds": round(quartile_distance(lengths), 3),
        "round_step_seconds": [round(median(s.seconds["step"] for s in timed(run)), 3) for run in rounds],
        "seconds": seconds,
    }


def ratios(runs: dict[str, dict[str, Rounds]]) -> dict[str, Any]:
    """Each with its target, its value in every round, and whether it is met."""
    equal, epochs = runs.get("equal_models", {}), runs.get("two_critic_epochs", {})
    over_limit = per_step(lambda step: 1 / step.efficiency if step.efficiency else None)
    found = {
        "update_pair_over_limit": [per_step(pair_over_limit)(run) for run in equal.get("update", [])],
        "step_over_limit": [over_limit(run) for run in equal.get("next_generation", [])],
        "none_over_best": quotients(equal, "none", "next_generation"),
        "colocated_over_best": quotients(equal, "colocated", "next_generation"),
        "update_over_next_two_critic_epochs": quotients(epochs, "update", "next_generation"),
    }
    report: dict[str, Any] = {}
    for name, values in found.items():
        if not values:
            continue
        middle, target = median(values), TARGETS[name]
        report[name] = {"value": round(middle, 3), "rounds": [round(value, 3) for value in values]}
        if target is not None:
            met = middle <= target[1] if target[0] == "<=" else middle >= target[1]
            report[name] |= {"target": f"{target[0]} {target[1]}", "met": met}
    return report


def per_step(of: Callable[[StepRecord], float | None]) -> Callable[[RunRecord], float]:
    return lambda run: median(value for step in timed(run) if (value := of(step)) is not None)


def pair_over_limit(step: StepRecord) -> float | None:
    """The driver's time from the end of the advantages to the weight sync, ÷ the longer of the two updates."""
    if "update_weights" not in step.began:
        return None
    wall = step.began["update_weights"] - (step.began["adv"] + step.seconds["adv"])
    return wall / max(step.seconds["update_actor"], step.seconds["update_critic"])


def quotients(scenario: dict[str, Rounds], slow: str, fast: str) -> list[float]:
    """Step ÷ step, round by round: what ran at about the same time is compared."""

    def middle(run: RunRecord) -> float:
        return median(step.seconds["step"] for step in timed(run))

    return [middle(a) / middle(b) for a, b in zip(scenario.get(slow, []), scenario.get(fast, []), strict=False)]


def predictions(runs: dict[str, dict[str, Rounds]]) -> list[dict[str, Any]]:
    """Each cell predicted from each other one of its scenario by the cost model, beside what was measured."""
    rows = []
    for scenario, variants in runs.items():
        known = {variant: as_measured(rounds) for variant, rounds in variants.items()}
        for source, run in known.items():
            for target, other in known.items():
                if source == target:
                    continue
                predicted = fit([run], serial=0.125).step(other.placement, other.overlap)
                rows.append(
                    {"scenario": scenario, "from": source, "to": target, "predicted": round(predicted, 3),
                     "measured": round(other.step, 3), "ratio": round(predicted / other.step, 3)}
                )  # fmt: skip
    return rows


def as_measured(rounds: Rounds) -> Measured:
    found = cell(rounds)
    plan = rounds[0].plan
    return Measured(plan.placement, plan.overlap, found["seconds"], found["step_seconds"])


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(found: dict[str, Any]) -> str:
    """The results as Markdown, for docs/benchmarks.md."""
    lines = ["| ratio | measured | rounds | target | |", "|---|---|---|---|---|"]
    for name, row in found["ratios"].items():
        met = {True: "met", False: "missed", None: ""}[row.get("met")]
        lines.append(f"| `{name}` | {row['value']:.2f} | {spelled(row['rounds'])} | {row.get('target', '')} | {met} |")
    for scenario, variants in found["scenarios"].items():
        lines += ["", f"{scenario.replace('_', ' ')}:", ""]
        lines += ["| variant | step, s | spread | " + " | ".join(PIECES) + " |", "|---|---|---|" + "---|" * len(PIECES)]
        for variant, row in variants.items():
            pieces = " | ".join(f"{row['seconds'].get(piece, 0):.2f}" for piece in PIECES)
            lines.append(f"| {variant} | {row['step_seconds']:.2f} | {row['spread_seconds']:.2f} | {pieces} |")
    lines += ["", "| predicted | from | predicted, s | measured, s | predicted ÷ measured |", "|---|---|---|---|---|"]
    for row in found["predictions"]:
        where = f"{row['scenario'].replace('_', ' ')}, {row['to']}"
        lines.append(
            f"| {where} | {row['from']} | {row['predicted']:.2f} | {row['measured']:.2f} | {row['ratio']:.2f} |"
        )
    return "\n".join(lines)


def spelled(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
