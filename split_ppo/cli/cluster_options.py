"""What every command that talks to a cluster shares: kubectl's own options, and errors as one sentence with exit code 1."""

import functools
import signal
from collections.abc import Callable
from typing import Any, NoReturn

import click

REFUSED, INTERRUPTED = 1, 130
Command = Callable[..., Any]


def on_cluster(function: Command) -> Command:
    """Gives the function a connected ApiServer as its first argument, and the options to choose it by."""

    @click.option("-n", "--namespace", help="Namespace; else the context's.")
    @click.option("--context", help="Context of the kubeconfig; else its current one.")
    @click.option(
        "--kubeconfig", type=click.Path(dir_okay=False), help="Kubeconfig; else $KUBECONFIG or ~/.kube/config."
    )
    @functools.wraps(function)
    def connected(
        *arguments: Any, namespace: str | None, context: str | None, kubeconfig: str | None, **options: Any
    ) -> Any:
        from split_ppo.cli.api_server import ApiServer
        from split_ppo.cli.refusals import ClusterError

        before = signal.signal(signal.SIGTERM, _end)
        try:
            server = ApiServer.connect(kubeconfig=kubeconfig, context=context, namespace=namespace)
            return function(server, *arguments, **options)
        except ClusterError as error:
            click.echo(str(error), err=True)
            raise SystemExit(REFUSED) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        finally:
            signal.signal(signal.SIGTERM, before)

    return connected


def _end(number: int, frame: object) -> NoReturn:
    """What a command made in the cluster is removed also when it is told to stop."""
    raise SystemExit(128 + number)
