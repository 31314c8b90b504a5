"""Processes forked from the warm one behave like those they stand for: input, output, environment, exit, death."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from split_ppo_trainer import warm, warm_worker

pytestmark = pytest.mark.trainer

SERVER = """
import sys
from split_ppo_trainer import warm
warm.MODULES = ("json", "numpy", "multiprocessing.util", *sys.argv[2:])
warm.main()
"""
# Plays the part of Ray's worker: says who it is, then does what it is told.
WORKER = """
import multiprocessing.util, os, sys, threading, time

def child(queue, semaphore):
    queue.put((os.getpid(), "numpy" in sys.modules))
    semaphore.acquire()
    sys.exit(7)

if __name__ == "__main__":
    print(os.getpid(), "numpy" in sys.modules, os.environ.get("FROM_RUNTIME_ENV"), *sys.argv[1:], flush=True)
    if "spawn" in sys.argv:
        spawn = multiprocessing.get_context("spawn")
        queue, semaphore = spawn.Queue(), spawn.Semaphore(0)
        process = spawn.Process(target=child, args=(queue, semaphore))
        process.start()
        print(*queue.get(), flush=True)
        semaphore.release()
        process.join()
        print(process.exitcode, flush=True)
    if "late" in sys.argv:
        multiprocessing.util.Finalize(None, lambda: (time.sleep(0.5), print("late", flush=True)), exitpriority=0)
    if "raise" in sys.argv:
        raise OSError("on purpose")
    if "wait" in sys.argv:
        threading.Event().wait()
    sys.exit(3)
"""


class Warm:
    def __init__(self, folder: Path, *modules: str) -> None:
        self.program = folder / "worker.py"
        self.program.write_text(WORKER)
        cold = folder / "cold.py"
        cold.write_text("print('cold')")
        self.environment = {
            **os.environ,
            warm_worker.SOCKET: str(folder / "warm"),
            warm_worker.FALLBACK: str(cold),
            warm_worker.JOB: warm.FIRST_JOB,
            "RAY_JOB_ID": warm.FIRST_JOB,
            "OMP_NUM_THREADS": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(folder / "warm"), *modules],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """As Ray starts a worker."""
        context = json.dumps({"env_vars": {"FROM_RUNTIME_ENV": "yes"}})
        options = [f"--serialized-runtime-env-context={context}", "--language=PYTHON"]
        command = [sys.executable, warm_worker.__file__, *options, str(self.program), *arguments]
        return subprocess.Popen(
            command, env={**self.environment, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    started = Warm(tmp_path_factory.mktemp("warm"))
    assert started.said == "warm: ready"
    yield started
    started.process.kill()
    started.process.wait()


def test_a_worker_is_forked_with_its_arguments_environment_and_exit_status(server: Warm) -> None:
    process = server.start("--node-id=1")
    output, _ = process.communicate()
    pid, imported, variable, argument = output.split()
    assert (imported, variable, argument) == ("True", "yes", "--node-id=1")
    assert int(pid) != process.pid
    assert process.returncode == 3


def test_what_it_spawns_is_forked_too(server: Warm) -> None:
    output, errors = server.start("spawn").communicate()
    _, spawned, status = output.splitlines()
    assert spawned.split()[1] == "True"
    assert status == "7"
    assert "leaked" not in errors


def test_what_the_imports_have_registered_for_the_end_runs_too(server: Warm) -> None:
    process = server.start("late")
    assert process.communicate()[0].splitlines()[-1] == "late"
    assert process.returncode == 3


def test_an_error_ends_the_worker_and_not_the_server(server: Warm) -> None:
    process = server.start("raise")
    assert "OSError: on purpose" in process.communicate()[1]
    assert process.returncode == 1
    assert server.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_the_process_that_ray_knows_ends_the_worker(server: Warm, number: int) -> None:
    process = server.start("wait")
    assert process.stdout is not None
    pid = int(process.stdout.readline().split()[0])
    worker = os.pidfd_open(pid)
    process.send_signal(number)
    assert process.wait() != 0
    poll = select.poll()
    poll.register(worker, select.POLLIN)
    assert poll.poll(30_000), "the worker lives on"
    process.communicate()
    os.close(worker)


def test_other_jobs_and_a_dead_server_start_cold(server: Warm, tmp_path: Path) -> None:
    assert server.start(RAY_JOB_ID="02000000").communicate()[0] == "cold\n"
    assert server.start(**{warm_worker.SOCKET: str(tmp_path / "nowhere")}).communicate()[0] == "cold\n"


def test_threads_make_it_step_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    aside = Warm(tmp_path, "starts_a_thread")
    assert "workers start cold" in aside.said
    assert aside.process.wait() == 0
    assert aside.start().communicate()[0] == "cold\n"
