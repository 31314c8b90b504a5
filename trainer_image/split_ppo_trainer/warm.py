"""One process that has imported everything, and forks the run's Ray workers.

A run on this machine is a dozen processes that each import torch, verl and vLLM: a minute and a half on two cores,
before anything is trained. Here that is done once. Ray lets the program that sets up a worker be named
(`setup_worker_path`); ours is `warm_worker.py`, which asks this process for a fork. vLLM's engine is a process that
multiprocessing spawns; it, too, lets the program to start be named.

What makes it sound: nothing here has started a thread or touched a GPU when it forks (checked); what a process of its
own would draw anew is drawn anew in the child; and Ray reads two of a worker's variables when its library is loaded, so
they are set before: the job's number, which is the first on a cluster made for one run, and the process whose death
ends the worker, for which the supervisor stands in.

For device CPU alone: there the imports weigh most, and no CUDA context can be broken by a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import shlex
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from split_ppo_trainer import warm_worker

FIRST_JOB = "01000000"
FAREWELL_S = 5.0  # for what a process does at its end once it has said how it ends
FORK_SAFE = {"jemalloc_bg_thd"}  # pyarrow's allocator; it stops and starts this thread around a fork by itself
# What the workers of a run import, as far as it can be imported without starting anything.
MODULES = (
    "torch",
    "ray",
    "ray.actor",
    "ray._private.workers",
    "ray._private.arrow_serialization",
    "transformers",
    "transformers.models.qwen2.modeling_qwen2",
    "transformers.models.qwen2.tokenization_qwen2",
    "tensordict",
    "peft",
    "pydantic.v1",
    "verl.trainer.main_ppo",
    "verl.trainer.ppo.v1",
    "verl.experimental.agent_loop",
    "verl.experimental.reward_loop",
    "verl.workers.engine",
    "verl.workers.engine_workers",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.async_llm",
    "vllm.v1.worker.cpu_worker",
    "split_ppo_trainer.session",
)


def main() -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(256)  # workers that Ray wants in the meantime wait here
    for module in MODULES:
        importlib.import_module(module)
    if unsafe := threads() - FORK_SAFE:
        print(
            f"warm: the imports started {', '.join(sorted(unsafe))}; forking is not safe, workers start cold",
            flush=True,
        )
        listener.close()
        Path(sys.argv[1]).unlink()
        return
    spawn_by_fork(Path(sys.argv[1]).parent)
    gc.collect()
    gc.freeze()  # collecting in a child would copy every page
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    print("warm: ready", flush=True)
    while True:
        connection, _ = listener.accept()
        try:
            mine = serve(connection)
        except (OSError, ValueError) as problem:
            print(f"warm: a request for a worker failed: {problem}", flush=True)
            mine = None
        if mine is not None:
            listener.close()
            become(connection, *mine)
        connection.close()


def threads() -> set[str]:
    """Names of this process' threads but the first."""
    tasks = Path("/proc/self/task").iterdir()
    return {(task / "comm").read_text().strip() for task in tasks if task.name != str(os.getpid())}


def serve(connection: socket.socket) -> tuple[list[int], dict[str, Any]] | None:
    """Fork; what was asked for is returned in the child alone."""
    header, descriptors, _, _ = socket.recv_fds(connection, 8, 250)
    length, body = int.from_bytes(header, "big"), b""
    while len(body) < length:
        part = connection.recv(length - len(body))
        if not part:
            raise OSError("it was not complete")
        body += part
    if os.fork() == 0:
        return descriptors, json.loads(body)
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def become(connection: socket.socket, descriptors: list[int], request: dict[str, Any]) -> NoReturn:
    """Be the process that was asked for, to its ordinary end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection = put_descriptors(connection, descriptors, request["descriptors"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    draw_anew()
    status, reported = 1, threading.Event()
    end_with(connection, reported)

    def report() -> None:
        reported.set()
        with contextlib.suppress(OSError):
            connection.send(bytes([status & 0xFF]))

    atexit.register(report)  # runs after what the process itself registers, before what the imports have
    try:
        if "code" in request:
            sys.argv = ["-c", "--multiprocessing-fork"]
            exec(request["code"], {"__name__": "__main__"})
        else:
            command = request["command"]
            sys.argv, sys.path[0] = command, str(Path(command[0]).parent)
            runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        raise
    raise SystemExit(0)


def put_descriptors(connection: socket.socket, given: list[int], wanted: list[int]) -> socket.socket:
    """Give the descriptors their numbers; everything moves out of the way first, since numbers may overlap."""
    above = max(wanted) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in given]
    kept = socket.socket(fileno=fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, above))
    connection.close()
    for descriptor in given:
        os.close(descriptor)
    for descriptor, number in zip(moved, wanted, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return kept


def draw_anew() -> None:
    """numpy took its global seed from the system at import; the children must not share it. (`random` does this by itself.)"""
    import numpy

    numpy.random.seed(None)


def end_with(connection: socket.socket, reported: threading.Event) -> None:
    """End when the process that stands for this one has ended, and pass on what it was asked to.

    Once it has been told how this one ends, it is gone at once, and this one may still be giving back its semaphores.
    """

    def watch() -> None:
        with contextlib.suppress(OSError):
            while connection.recv(1) == warm_worker.TERMINATE:
                os.kill(os.getpid(), signal.SIGTERM)
        if reported.is_set():
            time.sleep(FAREWELL_S)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def spawn_by_fork(folder: Path) -> None:
    """Let multiprocessing start `warm_worker` where it would start Python."""
    program = folder / "python"
    words = (sys.executable, "-S", "-E", warm_worker.__file__, warm_worker.SPAWN)
    program.write_text(f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n')
    program.chmod(0o700)
    multiprocessing.set_executable(str(program))


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
