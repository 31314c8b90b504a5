"""From the runs of the benchmark to its ratios. Medians over every timed step of every round; the spread of a ratio is that of
its rounds."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from split_ppo.compare.figures import measured, quartile_distance
from split_ppo.compare.run_record import RunRecord, StepRecord, read_run
from split_ppo.placement.advice import SCALING
from split_ppo.placement.cost import Measured, fit
from split_ppo_trainer.overlap import Overlap, Turns

# How each run is started, and in each scenario which levels take turns in it.
RUNS = {"split": ["--mode", "Split", "--overlap", "NextGeneration"], "colocated": ["--mode", "Colocated"]}
SCENARIOS: dict[str, dict[str, list[str]]] = {
    "equal_models": {"split": ["None", "Update", "Inference", "NextGeneration"], "colocated": ["None"]},
    "two_critic_epochs": {"split": ["Update", "NextGeneration"]},
    "small_critic": {"split": ["NextGeneration"], "colocated": ["None"]},
}
# Files with a number about the machine: in the folder of the rounds, in that of each run.
TOGETHER, STOLEN = "together_over_alone", "stolen_share"
BLOCK = 5  # steps of a level before the next one's turn; the first and the last of them are not timed
TARGETS = {
    "update_pair_over_limit": ("<=", 1.05),
    "step_over_limit": ("<=", 1.10),
    "none_over_best": (">=", 1.5),
    "colocated_over_best": None,
    "update_over_next_two_critic_epochs": (">=", 1.3),
}
LEVEL_NAMES = {level: name for name in SCENARIOS["equal_models"]["split"] if (level := Overlap.parse(name)) is not None}
PIECES = ("gen", "old_log_prob", "values", "adv", "update_critic", "update_actor", "update_weights")


@dataclass(frozen=True)
class Cell:
    """A variant (`Colocated` or an overlap level) of a scenario: the timed steps of each round."""

    overlap: str
    runs: list[RunRecord]
    rounds: list[list[StepRecord]]

    @property
    def steps(self) -> list[StepRecord]:
        return [step for steps in self.rounds for step in steps]

    def step_seconds(self) -> list[float]:
        """Of each round."""
        return [median(step.seconds["step"] for step in steps) for steps in self.rounds]

    def report(self) -> dict[str, Any]:
        lengths = [step.seconds["step"] for step in self.steps]
        pieces = {piece: [s.seconds[piece] for s in self.steps if piece in s.seconds] for piece in PIECES}
        return {
            "rounds": len(self.rounds),
            "timed_steps": len(lengths),
            "step_seconds": round(median(lengths), 3),
            "spread_seconds": round(quartile_distance(lengths), 3),
            "round_step_seconds": [round(seconds, 3) for seconds in self.step_seconds()],
            "seconds": {piece: round(median(values), 3) for piece, values in pieces.items() if values},
        }

    def measured(self) -> Measured:
        """As one run; its exchange is the mean of what each round tried."""
        found, tried = self.report(), [measured(run) for run in self.runs]
        exchange = {piece: fmean(run.exchange[piece] for run in tried) for piece in tried[0].exchange}
        return replace(
            tried[0], overlap=self.overlap, seconds=found["seconds"], step=found["step_seconds"], exchange=exchange
        )


Cells = dict[str, dict[str, Cell]]


def results(folder: Path) -> dict[str, Any]:
    """Everything that trainer.json holds."""
    cells = read_all(folder)
    return {
        "machine": machine(folder),
        "ratios": ratios(cells),
        "scenarios": {
            name: {variant: cell.report() for variant, cell in found.items()} for name, found in cells.items()
        },
        "predictions": predictions(cells),
    }


def read_all(folder: Path) -> Cells:
    """The finished runs, taken apart by level."""
    found: Cells = {}
    for scenario, modes in SCENARIOS.items():
        for mode in modes:
            for path in sorted(folder.glob(f"{scenario}.{mode}.*/summary.json")):
                _add(found.setdefault(scenario, {}), read_run(path.parent), turns_of(scenario, mode))
    return found


def turns_of(scenario: str, mode: str) -> Turns:
    return Turns(tuple(Overlap.parse(level) for level in SCENARIOS[scenario][mode]), BLOCK)


def _add(cells: dict[str, Cell], run: RunRecord, turns: Turns) -> None:
    colocated = run.plan.placement.mode == "Colocated"
    for level in turns.levels:
        name = LEVEL_NAMES[level]
        cell = cells.setdefault("Colocated" if colocated else name, Cell(name, [], []))
        cell.runs.append(run)
        cell.rounds.append([step for step in timed(run, turns) if turns.at(step.number) is level])


def timed(run: RunRecord, turns: Turns) -> list[StepRecord]:
    """Without the first and last step of each block: a critic still runs on into the one, or the run stood still in it, and is
    waited for in the other."""
    return [step for step in run.steps if step.number % turns.steps not in (0, 1)]


def ratios(cells: Cells) -> dict[str, Any]:
    """Each with its target, its value in every round, and whether it is met."""
    equal, epochs = cells.get("equal_models", {}), cells.get("two_critic_epochs", {})
    found = {
        "update_pair_over_limit": per_round(equal.get("Update"), pair_over_limit),
        "step_over_limit": per_round(equal.get("NextGeneration"), lambda s: 1 / s.efficiency if s.efficiency else None),
        "none_over_best": quotients(equal, "None", "NextGeneration"),
        "colocated_over_best": quotients(equal, "Colocated", "NextGeneration"),
        "update_over_next_two_critic_epochs": quotients(epochs, "Update", "NextGeneration"),
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


def per_round(cell: Cell | None, of: Callable[[StepRecord], float | None]) -> list[float]:
    rounds = [] if cell is None else cell.rounds
    return [median(value for step in steps if (value := of(step)) is not None) for steps in rounds]


def pair_over_limit(step: StepRecord) -> float | None:
    """The driver's time from the end of the advantages to the weight sync, ÷ the longer of the two updates."""
    if "update_weights" not in step.began:
        return None
    wall = step.began["update_weights"] - (step.began["adv"] + step.seconds["adv"])
    return wall / max(step.seconds["update_actor"], step.seconds["update_critic"])


def quotients(scenario: dict[str, Cell], slow: str, fast: str) -> list[float]:
    """Step ÷ step, round by round: what ran at about the same time is compared."""
    if slow not in scenario or fast not in scenario:
        return []
    pairs = zip(scenario[slow].step_seconds(), scenario[fast].step_seconds(), strict=False)
    return [one / other for one, other in pairs]


def predictions(cells: Cells) -> list[dict[str, Any]]:
    """Each cell predicted from each other one of its scenario by the cost model, beside what was measured."""
    rows = []
    for scenario, variants in cells.items():
        for source, run in variants.items():
            for target, other in variants.items():
                if source == target:
                    continue
                known, wanted = run.measured(), other.measured()
                model = fit([known], scaling=SCALING[known.placement.device][1])
                predicted, step = model.step(wanted.placement, wanted.overlap), wanted.step
                rows.append(
                    {"scenario": scenario, "from": source, "to": target, "predicted": round(predicted, 3),
                     "measured": round(step, 3), "ratio": round(predicted / step, 3)}
                )  # fmt: skip
    return rows


def machine(folder: Path) -> dict[str, Any]:
    """With numbers of each round; of what was stolen, that of the round's worst run."""
    rounds = sorted(folder.glob(f"{TOGETHER}.*"))
    stolen = [[float(file.read_text()) for file in folder.glob(f"*{number.suffix}/{STOLEN}")] for number in rounds]
    return {
        "cores": os.cpu_count(),
        "processor": processor(),
        "python": platform.python_version(),
        TOGETHER: [float(file.read_text()) for file in rounds],
        STOLEN: [max(shares, default=0.0) for shares in stolen],
    }


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(found: dict[str, Any]) -> str:
    """The results as Markdown, for docs/benchmarks.md."""
    lines = ["| ratio | measured | rounds | target | |", "|---|---|---|---|---|"]
    for name, row in found["ratios"].items():
        met = {True: "met", False: "missed", None: ""}[row.get("met")]
        lines.append(f"| `{name}` | {row['value']:.2f} | {spelled(row['rounds'])} | {row.get('target', '')} | {met} |")
    lines += ["", f"The machine, round by round: {words(found['machine'])}."]
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


def words(machine: dict[str, Any]) -> str:
    stolen = ", ".join(f"{share:.1%}" for share in machine[STOLEN])
    lost = f"; most of the cores' time that a run lost to other machines {stolen}" if stolen else ""
    return f"work on one core while the other works too ÷ alone {spelled(machine[TOGETHER])}{lost}"


def spelled(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
