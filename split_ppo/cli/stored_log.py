"""A finished attempt's log, read by a pod that is made for it and always removed."""

import contextlib
import secrets
import time
from collections.abc import Iterator

import click

from split_ppo.api.job import SplitPPOJob
from split_ppo.cli.api_server import ApiServer, Object
from split_ppo.cli.log_lines import attributed, placement_pools
from split_ppo.cli.reader_pod import NO_LOG, reader_pod
from split_ppo.cli.refusals import ClusterError

PATIENCE_SECONDS = 180.0
_PURPOSE = "The log is on the job's volume, and only a pod that mounts it can read it."


def stored_lines(server: ApiServer, job: SplitPPOJob, *, attempt: int) -> Iterator[tuple[str, str]]:
    """The attributed lines of the log on the checkpoints' volume."""
    with _running(server, reader_pod(job, attempt=attempt, suffix=secrets.token_hex(3))) as name:
        path = server.path("api/v1", "pods", name, "log")
        response = server.open("GET", path, query={"follow": "true"}, patience=None, purpose=_PURPOSE)
        lines = server.lines(response)
        pools = placement_pools(next(lines, ""))
        yield from attributed(lines, pools)
        if _exit_code(server.get(server.path("api/v1", "pods", name))) == NO_LOG:
            raise ClusterError(
                f"Attempt {attempt} of {job.metadata.name} left no log on its volume: it ended before the trainer started, or "
                "the volume was cleared."
            )


@contextlib.contextmanager
def _running(server: ApiServer, pod: Object) -> Iterator[str]:
    name = str(pod["metadata"]["name"])
    path = server.path("api/v1", "pods", name)
    try:
        # Inside, for who is interrupted while he asks does not know whether there is a pod now.
        server.json("POST", server.path("api/v1", "pods"), pod, purpose=_PURPOSE)
        _await(server, path)
        yield name
    finally:
        with contextlib.suppress(ClusterError):  # what went wrong before is what the user should read
            server.json("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


def _await(server: ApiServer, path: str) -> None:
    deadline, told = time.monotonic() + PATIENCE_SECONDS, ""
    while True:
        pod = server.get(path)
        if pod["status"].get("phase") in ("Running", "Succeeded", "Failed"):
            return
        why = _hindrance(pod)
        if why and why != told:
            click.echo(f"waiting for the pod that reads the log: {why}", err=True)
            told = why
        if time.monotonic() > deadline:
            raise ClusterError(f"The pod that reads the log did not start within {PATIENCE_SECONDS:.0f} s: {why}")
        time.sleep(0.5)


def _hindrance(pod: Object) -> str:
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    for container in pod["status"].get("containerStatuses", []):
        waiting = container["state"].get("waiting", {})
        if waiting.get("message"):
            return f"{waiting.get('reason')}: {waiting['message']}"
    return ""


def _exit_code(pod: Object) -> int | None:
    for container in pod["status"].get("containerStatuses", []):
        ended = container["state"].get("terminated")
        if ended is not None:
            return int(ended["exitCode"])
    return None
