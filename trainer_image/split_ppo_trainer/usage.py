"""Memory and work of each worker, sampled beside the training: asked for at one moment, read at a later one, never waited for.

Memory: on an accelerator a rank tells what is taken of its whole device, vLLM's share included. On the CPU every process
tells its own proportional share: what forked processes have in common is counted once.

Work: a rank is busy in passes, updates and weight sync, a vLLM server while a request is under way. What a worker has been
busy since its sample before, by its own clock, ÷ the time between the two is its share.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ray

from split_ppo_trainer.busy import PROCESS
from split_ppo_trainer.pool_load import WorkerUse

ENGINE_ANSWERS_S = 10.0


class Sample(NamedTuple):
    """What a worker says of itself: when, by its own clock, how long it has been busy in all, and its own bytes, if any."""

    at: float
    busy_s: float
    memory: int | None

    def since(self, before: "Sample | None") -> WorkerUse:
        """The worker between two samples."""
        share = None
        if before is not None and self.at > before.at:
            share = min((self.busy_s - before.busy_s) / (self.at - before.at), 1.0)
        return WorkerUse(share, self.memory)


def memory_bytes() -> int:
    """What this process takes, or what is taken of the device it has."""
    from verl.utils.device import get_torch_device

    free, total = get_torch_device().mem_get_info()
    return (total - free) or process_bytes(Path("/proc/self/smaps_rollup").read_text())


def process_bytes(rollup: str) -> int:
    """The proportional set size in a `smaps_rollup`."""
    sizes = (line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
    return 1024 * int(next(sizes, "0"))


def sample_rank(_: Any) -> Sample:
    """Called in a verl worker."""
    return Sample(time.perf_counter(), PROCESS.seconds(), memory_bytes())


def sample_server(server: Any) -> Sample:
    """Called in the actor of a vLLM server: the memory is that of its engine's workers. None where the engine does not run."""
    sizes = engine_answers(server, "memory_bytes")
    return Sample(time.perf_counter(), PROCESS.seconds(), sum(sizes) if sizes else None)


def sample_server_beside_ranks(_: Any) -> Sample:
    """The same where ranks tell of the device that the server shares with them."""
    return Sample(time.perf_counter(), PROCESS.seconds(), None)


def count_requests(server: Any) -> None:
    """Called in the actor of a vLLM server, once: from now on its process is busy while a request is under way, whether it comes
    through Ray or HTTP."""
    engine = getattr(server, "engine", None)
    if engine is not None:
        engine.generate, engine.encode = PROCESS.counted(engine.generate), PROCESS.counted(engine.encode)


def engine_answers(server: Any, method: str) -> list[int]:
    """Called in the actor of a vLLM server, on a thread beside its event loop: asks its engine's workers, which are processes of
    their own, for a method of our extension. Nobody answers where the engine does not run."""
    handler = getattr(getattr(server, "engine", None), "output_handler", None)
    if handler is None:
        return []
    answers = asyncio.run_coroutine_threadsafe(server.engine.collective_rpc(method), handler.get_loop())
    return [int(answer) for answer in answers.result(ENGINE_ANSWERS_S)]


@dataclass(frozen=True)
class Member:
    """A worker of a pool: its name there, its Ray actor, and what to call in it."""

    pool: str
    name: str
    actor: Any
    sample: Callable[[Any], Sample]


class Usage:
    """What is known of each worker."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._asked: dict[Member, Any] = {}
        self._newest: dict[Member, Sample] = {}
        self._known: dict[Member, WorkerUse] = {}

    def ask(self) -> None:
        """Those that have answered since the last time. A busy worker answers when its turn comes."""
        self.read()
        for member in self._members:
            if member not in self._asked:
                self._asked[member] = member.actor.__ray_call__.remote(member.sample)

    def read(self) -> Mapping[str, Mapping[str, WorkerUse | None]]:
        """Of each worker of each pool, None before its first answer."""
        if self._asked:
            done, _ = ray.wait(list(self._asked.values()), num_returns=len(self._asked), timeout=0)
            arrived = set(done)
            for member, answer in list(self._asked.items()):
                if answer in arrived:
                    del self._asked[member]
                    with contextlib.suppress(ray.exceptions.RayError):  # whoever needs the worker will say that it died
                        self._take(member, ray.get(answer))
        found: dict[str, dict[str, WorkerUse | None]] = {}
        for member in self._members:
            found.setdefault(member.pool, {})[member.name] = self._known.get(member)
        return found

    def _take(self, member: Member, sample: Sample) -> None:
        self._known[member] = sample.since(self._newest.get(member))
        self._newest[member] = sample
