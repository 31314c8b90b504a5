"""`split-ppo`, also reached as `kubectl split-ppo` and `python -m split_ppo`.

`--help` must answer at once, so nothing is imported here but click: commands are named with their one-line help and loaded when
they are called.
"""

import sys
from importlib import import_module
from pathlib import PurePath
from typing import Any

import click

from split_ppo import __version__

# name -> (module with the command, its one-line help)
COMMANDS: dict[str, tuple[str, str]] = {
    "plan": ("split_ppo.cli.plan", "Check a job and draw who sits where; starts nothing."),
    "validate": ("split_ppo.cli.validate", "Check jobs; says nothing but what is wrong."),
    "run": ("split_ppo.cli.run", "Train a job on this machine, with or without GPUs."),
    "compare": ("split_ppo.cli.compare", "Put runs side by side: phases, pools, reward, who was faster."),
    "advise": ("split_ppo.cli.advise", "From a run, predict every other split of its GPUs and say which is best."),
    "submit": ("split_ppo.cli.submit", "Check a job and create it in a cluster."),
    "list": ("split_ppo.cli.listing", "List the jobs of a cluster, and why each waits."),
    "status": ("split_ppo.cli.status", "Show a job's pools and progress, live, and why it waits."),
    "logs": ("split_ppo.cli.logs", "Print what driver and workers say, by pool, also after the end."),
    "suspend": ("split_ppo.cli.suspend", "Stop a job, give its GPUs back, keep its checkpoint."),
    "resume": ("split_ppo.cli.resume", "Let a suspended job go on from its checkpoint."),
    "delete": ("split_ppo.cli.delete", "Delete a job and all that was made for it."),
    "dashboard": ("split_ppo.cli.dashboard", "Open Ray's dashboard of a job, logged in."),
    "schema": ("split_ppo.cli.schema", "Print the JSON schema for editors, or the CRD."),
    "completion": ("split_ppo.cli.completion", "Print the script that completes commands in your shell."),
}

_HELP = """Split-placement PPO: actor GPUs here, critic GPUs there, both halves of a step at once.

\b
One SplitPPOJob YAML, three ways to use it:
  split-ppo plan job.yaml      check it and draw the placement
  split-ppo run job.yaml       train it on this machine
  split-ppo submit job.yaml    train it on Kubernetes, with the operator installed

\b
A job in short:
  apiVersion: splitppo.io/v1alpha1
  kind: SplitPPOJob
  metadata: {name: first}
  spec:
    placement: {total: {nodes: 1, gpusPerNode: 4}}   # 2 for the actor, 2 for the critic
    training:
      model: {actor: Qwen/Qwen2.5-0.5B-Instruct}
      data: {train: [/data/train.parquet]}
"""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            meant = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {meant[0]}?" if meant else f" There are {', '.join(COMMANDS)}."
            ctx.fail(f"There is no command {args[0]}.{hint}")
        return super().resolve_command(ctx, args)


@click.command(cls=LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="split-ppo")
def cli() -> None:
    pass


def main(**kwargs: Any) -> None:
    called = PurePath(sys.argv[0]).name
    prog = {"kubectl-split_ppo": "kubectl split-ppo", "__main__.py": "python -m split_ppo"}.get(called, "split-ppo")
    cli(prog_name=prog, **kwargs)
