"""`python -m split_ppo_trainer`: run a plan file on the Ray cluster this process is part of."""

import argparse
import json
import sys
from pathlib import Path

from pydantic import ValidationError

from split_ppo.runplan import RunPlan
from split_ppo_trainer.failures import RunFailure, bad_input, is_disk_full
from split_ppo_trainer.kept_output import keep_output
from split_ppo_trainer.toy import UnknownToy, materialise, named_toys

TEACH = """\
The plan file is the only input: `split-ppo run` and the operator write it, `split-ppo plan -o json` shows the placement in it.

Written to the output folder, line by line, while the run goes on:
  events.jsonl    stages, steps, who runs where, and the error that ended the run
  metrics.jsonl   one line a step: verl's metrics under verl's names, and
                    split/critic_wait_s       seconds the actor's pool waited for the critic's
                    split/overlap_efficiency  shortest possible step ÷ measured step
                    split/pool_bytes          bytes moved between the pools
                    split/pool/POOL/…         busy_share, wait_s, tokens_per_s and memory_gb of each pool
                    split/worker/POOL/WORKER/…  busy_share and memory_gb of each rank and vLLM server

Exit status: 0 trained, 1 training failed, 2 the plan or a file it names is wrong, 3 the pools were not there in time,
4 it goes on on another split, with the plan in next-plan.json (balance.mode: Apply).
The last line on stderr is the reason, in a sentence.

Examples:
  python -m split_ppo_trainer --plan plan.json --output out
  python -m split_ppo_trainer --plan plan.json --output out --resume             # from the newest complete checkpoint
  python -m split_ppo_trainer --plan plan.json --output out --resume ckpt/global_step_40
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m split_ppo_trainer",
        description="Train a plan: PPO with actor and critic on pools of their own.",
        epilog=TEACH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--output", type=Path, required=True, help="folder for metrics and events; made if need be")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="latest",
        metavar="CHECKPOINT",
        help="continue from the newest complete checkpoint in the plan's storage.path, or from this one; a plan whose "
        "attempt is not the first does so by itself",
    )
    parser.add_argument(
        "--pools-deadline",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="how long to wait for the pools' nodes before giving up with status 3 (default 600)",
    )
    parser.add_argument(
        "--stall-seconds",
        type=float,
        metavar="SECONDS",
        help="end the run when nothing moves for this long, whatever it is doing (default: by stage, 15 minutes to an hour)",
    )
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="write everything that is printed here to this file as well"
    )
    arguments = parser.parse_args()
    if arguments.log is not None:
        keep_output(arguments.log)
    try:
        written = parse_plan(arguments.plan)
        plan = with_toys(written, arguments.output)
        from split_ppo_trainer.driver import Options, run

        run(
            plan,
            Options(
                toys=tuple(toy_folder(plan, arguments.output) / name for name in sorted(named_toys(written.verl))),
                output=arguments.output.resolve(),
                resume=arguments.resume,
                pools_deadline_s=arguments.pools_deadline,
                stall_seconds=arguments.stall_seconds,
            ),
        )
    except RunFailure as failure:
        print(f"{failure.reason}: {failure.message}", file=sys.stderr, flush=True)
        return failure.exit_code
    except KeyboardInterrupt:
        print("Stopped: The run was interrupted; resume it with --resume.", file=sys.stderr, flush=True)
        return 130
    return 0


def read_plan(path: Path, output: Path) -> RunPlan:
    """The plan, with toys made and their paths put in."""
    return with_toys(parse_plan(path), output)


def parse_plan(path: Path) -> RunPlan:
    try:
        plan = RunPlan.model_validate(json.loads(path.read_text()))
    except FileNotFoundError:
        raise bad_input(f"There is no plan file {path}.") from None
    except (json.JSONDecodeError, ValidationError) as problem:
        raise bad_input(f"{path} is not a plan file: {problem}") from problem
    if plan.placement.findings:
        raise bad_input(
            "The plan has findings and cannot be run: " + " ".join(f.message for f in plan.placement.findings)
        )
    return plan


def with_toys(plan: RunPlan, output: Path) -> RunPlan:
    folder = toy_folder(plan, output)
    try:
        settings = materialise(plan.verl, folder)
    except UnknownToy as problem:
        raise bad_input(str(problem)) from problem
    except Exception as problem:
        if not is_disk_full(problem):
            raise
        raise RunFailure("DiskFull", f"The toy does not fit under {folder}: the disk is full.") from problem
    return plan.model_copy(update={"verl": settings})


def toy_folder(plan: RunPlan, output: Path) -> Path:
    return Path(plan.storage.path or output).resolve() / "toys"


if __name__ == "__main__":
    sys.exit(main())
