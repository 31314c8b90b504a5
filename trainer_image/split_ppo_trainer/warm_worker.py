"""Stands where Ray expects the program that sets up a worker: has the warm process fork one instead of starting Python anew.

Ray runs this file for each worker it wants, with the worker's own command line behind it. It must import next to
nothing. While the worker lives it stays, as the process that Ray knows; when Ray ends it, the worker ends too.
"""

import json
import os
import socket
import sys

SOCKET, FALLBACK, JOB = "SPLIT_PPO_WARM_SOCKET", "SPLIT_PPO_WARM_FALLBACK", "SPLIT_PPO_WARM_JOB"


def main() -> None:
    environment, command = dict(os.environ), []
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        if name == "--serialized-runtime-env-context":
            environment.update(json.loads(value or "{}").get("env_vars") or {})
        elif name != "--language":
            command.append(argument)
    connection = socket.socket(socket.AF_UNIX)
    try:
        if os.environ.get("RAY_JOB_ID") != os.environ[JOB]:
            raise OSError("the warm process serves the first job of its cluster")
        connection.connect(os.environ[SOCKET])
    except OSError:
        fallback = os.environ[FALLBACK]
        os.execv(sys.executable, [sys.executable, fallback, *sys.argv[1:]])
    folder = os.getcwd()  # noqa: PTH109  (pathlib would be one more import)
    request = json.dumps({"command": command, "environment": environment, "folder": folder}).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(request)
    status = connection.recv(1)  # nothing: the worker was killed
    os._exit(status[0] if status else 1)


if __name__ == "__main__":
    main()
