"""`split-ppo dashboard`: Ray's dashboard of a job in the browser, logged in, until Ctrl-C."""

import socket
import threading
import webbrowser
from typing import cast

import click

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.cluster_options import on_cluster
from split_ppo.cli.forward import Forward
from split_ppo.cli.jobs import JobOnCluster, get_job
from split_ppo.cli.ray_logs import cluster_pods, ray_token, running_head
from split_ppo.cli.refusals import ClusterError

RAY_PORT = 8265
_TURN = threading.Lock()


@click.command("dashboard")
@click.argument("name")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=RAY_PORT, show_default=True, help="Here; 0 for any free one."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@on_cluster
def command(server: ApiServer, name: str, port: int, no_browser: bool) -> None:
    """Open Ray's dashboard of the SplitPPOJob NAME, already logged in. Ctrl-C ends it.

    The port is open on this machine only, and Ray still asks for its token: the printed address brings it along, other
    people on this machine do not get in.

    \b
    Examples:
      split-ppo dashboard train
      split-ppo dashboard train --port 0 --no-browser

    Needs the right to get splitppojobs and secrets, list pods, and get and create pods/portforward. The role `edit` has
    all of them.
    """
    cluster = _cluster_of(get_job(server, name))
    if running_head(cluster_pods(server, cluster)) is None:
        raise ClusterError(f"The head pod of {cluster} does not run yet: split-ppo status {name} says why.")
    token = ray_token(server, cluster)

    def connect() -> socket.socket:
        return _connect(server, cluster)

    connect().close()  # what is not allowed is said now and not by the browser
    forward = Forward(connect, token, port=port, complain=lambda text: click.echo(text, err=True))
    try:
        click.echo(f"Ray's dashboard of {name} is at {forward.login}\nCtrl-C ends it.")
        if not no_browser:
            webbrowser.open(forward.login)
        forward.serve()
    finally:
        forward.close()


def _cluster_of(found: JobOnCluster) -> str:
    if found.status.ray_cluster is None or (found.finished and found.job.spec.run_policy.cleanup == "Cluster"):
        raise ClusterError(
            f"{found.name} is {found.phase} and has no Ray cluster"
            + (", so no dashboard: runPolicy.cleanup: Workers keeps the head." if found.finished else " yet.")
        )
    return found.status.ray_cluster.name


def _connect(server: ApiServer, cluster: str) -> socket.socket:
    """A connection to the head as it is now: it may have been replaced since the last one."""
    from kubernetes.client import ApiException, CoreV1Api
    from kubernetes.stream import portforward

    head = running_head(cluster_pods(server, cluster))
    if head is None:
        raise ClusterError(f"The head pod of {cluster} is gone.")
    method = CoreV1Api(server.client).connect_get_namespaced_pod_portforward
    try:
        with _TURN:  # the client swaps its transport while it connects
            made = portforward(method, head["metadata"]["name"], server.namespace, ports=str(RAY_PORT))
    except ApiException as error:
        raise _refusal(error, server) from None
    return cast(socket.socket, made.socket(RAY_PORT))


def _refusal(error: Exception, server: ApiServer) -> ClusterError:
    """The client gives a refused handshake as text, and the API server does not always say in it what is missing."""
    text = str(error)
    if "Handshake status 403" in text:
        return ClusterError(
            f"You may not connect to pods in namespace {server.namespace}, and the dashboard is reached that way. Whoever "
            "manages the cluster can allow it: a Role with the verbs get and create on pods/portforward.",
            status=403,
        )
    return ClusterError(f"The head pod can't be reached: {text.strip()[:300]}")
