"""`split-ppo completion`: click knows how to complete; this prints the script that asks it."""

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes split-ppo in SHELL.

    \b
    Examples:
      source <(split-ppo completion bash)
      split-ppo completion zsh > ~/.zfunc/_split-ppo
      split-ppo completion fish > ~/.config/fish/completions/split-ppo.fish
    """
    from split_ppo.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "split-ppo", "_SPLIT_PPO_COMPLETE").source())
