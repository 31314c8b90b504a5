"""Stands where a new Python would be started: has the warm process fork one instead.

Ray runs this file for each worker it wants, with the worker's own command line behind it; multiprocessing runs it for
each process it spawns. It must import next to nothing. While the fork lives it stays, as the process that its parent
knows: what ends it ends the fork, and it ends as the fork ended.
"""

import json
import os
import signal
import socket
import sys

SOCKET, FALLBACK, JOB = "SPLIT_PPO_WARM_SOCKET", "SPLIT_PPO_WARM_FALLBACK", "SPLIT_PPO_WARM_JOB"
SPAWN = "--spawn"
TERMINATE = b"T"


def main() -> None:
    arguments, descriptors = sys.argv[1:], [0, 1, 2]
    if arguments[0] == SPAWN:
        request, cold = spawn_request(arguments[1:])
        descriptors = open_descriptors()  # multiprocessing lets its processes inherit pipes by their numbers
    else:
        request, cold = worker_request(arguments)
    connection = socket.socket(socket.AF_UNIX)
    try:
        if request is None:
            raise OSError("not for the warm process")
        connection.connect(os.environ[SOCKET])
    except OSError:
        os.execv(sys.executable, [sys.executable, *cold])
    assert request is not None
    signal.signal(signal.SIGTERM, lambda *_: connection.send(TERMINATE))
    request |= {"folder": os.getcwd(), "descriptors": descriptors}  # noqa: PTH109  (pathlib is one more import)
    body = json.dumps(request).encode()
    socket.send_fds(connection, [len(body).to_bytes(8, "big")], descriptors)
    connection.sendall(body)
    try:
        status = connection.recv(1)
    except OSError:
        status = b""
    os._exit(status[0] if status else 1)  # nothing: it was killed


def open_descriptors() -> list[int]:
    """Called before this process opens any of its own."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    return sorted(number for number in numbers if is_open(number))


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False  # it was the listing's
    return True


def worker_request(arguments: list[str]) -> tuple[dict[str, object] | None, list[str]]:
    """A Ray worker: run its program in the environment that Ray wants for it."""
    environment, command = dict(os.environ), list[str]()
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "--serialized-runtime-env-context":
            environment.update(json.loads(value or "{}").get("env_vars") or {})
        elif name != "--language":
            command.append(argument)
    request: dict[str, object] = {"command": command, "environment": environment}
    first_job = os.environ.get("RAY_JOB_ID") == os.environ[JOB]  # Ray's library in the warm process is bound to it
    return (request if first_job else None), [os.environ[FALLBACK], *arguments]


def spawn_request(arguments: list[str]) -> tuple[dict[str, object] | None, list[str]]:
    """A process of multiprocessing: run the code that receives it."""
    code = arguments[arguments.index("-c") + 1] if "-c" in arguments else ""
    if "spawn_main" not in code:  # its resource tracker, which is better off cold and small
        return None, arguments
    return {"code": code, "environment": dict(os.environ)}, arguments


if __name__ == "__main__":
    main()
