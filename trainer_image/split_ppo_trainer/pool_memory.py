"""Memory of each pool, sampled beside the training: asked for at one moment, read at a later one, never waited for.

On an accelerator a rank tells what is taken of its whole device, vLLM's share included. On the CPU every process tells
its own proportional share: what forked processes have in common is counted once.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

ENGINE_ANSWERS_S = 10.0


def memory_bytes() -> int:
    """What this process takes, or what is taken of the device it has."""
    from verl.utils.device import get_torch_device

    free, total = get_torch_device().mem_get_info()
    return (total - free) or process_bytes(Path("/proc/self/smaps_rollup").read_text())


def process_bytes(rollup: str) -> int:
    """The proportional set size in a `smaps_rollup`."""
    sizes = (line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
    return 1024 * int(next(sizes, "0"))


def sample_worker(_: Any) -> int:
    """Called in a verl worker."""
    return memory_bytes()


def sample_server(server: Any) -> int | None:
    """Called in the actor of a vLLM server: what its engine's workers take. None where the engine does not run."""
    sizes = engine_answers(server, "memory_bytes")
    return sum(sizes) if sizes else None


def engine_answers(server: Any, method: str) -> list[int]:
    """Called in the actor of a vLLM server, on a thread beside its event loop: asks its engine's workers, which are processes of
    their own, for a method of our extension. Nobody answers where the engine does not run."""
    handler = getattr(getattr(server, "engine", None), "output_handler", None)
    if handler is None:
        return []
    answers = asyncio.run_coroutine_threadsafe(server.engine.collective_rpc(method), handler.get_loop())
    return [int(answer) for answer in answers.result(ENGINE_ANSWERS_S)]


class PoolMemory:
    """The newest known bytes of each pool."""

    def __init__(self, workers: Mapping[str, Sequence[Any]], servers: Mapping[str, Sequence[Any]]) -> None:
        """Ray actors by pool."""
        self._workers, self._servers = workers, servers
        self._asked: dict[str, list[Any]] = {}
        self._known: dict[str, int] = {}

    def ask(self) -> None:
        """Those that have answered since the last time. A busy worker answers when its turn comes."""
        self.read()
        for pool in {*self._workers, *self._servers} - self._asked.keys():
            answers = [worker.__ray_call__.remote(sample_worker) for worker in self._workers.get(pool, ())]
            answers += [server.__ray_call__.remote(sample_server) for server in self._servers.get(pool, ())]
            self._asked[pool] = answers

    def read(self) -> Mapping[str, int]:
        for pool, answers in list(self._asked.items()):
            done, _ = ray.wait(answers, num_returns=len(answers), timeout=0)
            if len(done) == len(answers):
                del self._asked[pool]
                with contextlib.suppress(ray.exceptions.RayError):  # whoever needs the worker will say that it died
                    self._known[pool] = sum(size for size in ray.get(answers) if size is not None)
        return self._known
