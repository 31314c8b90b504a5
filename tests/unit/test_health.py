"""/healthz, /readyz and /metrics of a real server."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from split_ppo_operator.health import Health, serve
from split_ppo_operator.metrics import Metrics
from split_ppo_operator.queue import KeyedQueue


def free_port() -> int:
    with socket.socket() as attempt:
        attempt.bind(("127.0.0.1", 0))
        return int(attempt.getsockname()[1])


@asynccontextmanager
async def served(health: Health, metrics: Metrics) -> AsyncIterator[tuple[str, str]]:
    ports = free_port(), free_port()
    runners = await serve(health, metrics.registry, lambda: None, health_port=ports[0], metrics_port=ports[1])
    try:
        yield f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    finally:
        for runner in runners:
            await runner.cleanup()


async def ask(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_healthy_until_a_worker_hangs() -> None:
    hang = asyncio.Event()

    async def work(key: str) -> None:
        if key == "hangs":
            await hang.wait()

    queue: KeyedQueue[str] = KeyedQueue(work)
    running = asyncio.create_task(queue.run(2))
    async with served(Health(stalled=queue.stalled, limit=0.05), Metrics()) as (url, _):
        for _ in range(5):
            queue.add("works")
            await asyncio.sleep(0.03)
        assert (await ask(f"{url}/healthz")) == (200, "ok")
        queue.add("hangs")
        await asyncio.sleep(0.1)
        status, text = await ask(f"{url}/healthz")
        assert status == 500
        assert "stuck" in text
        hang.set()
        await asyncio.sleep(0.01)
        assert (await ask(f"{url}/healthz"))[0] == 200
    running.cancel()


async def test_a_replica_that_waits_for_the_lease_is_healthy_however_much_is_queued() -> None:
    async def work(key: str) -> None:
        raise AssertionError

    queue: KeyedQueue[str] = KeyedQueue(work)
    queue.add("for the leader")
    await asyncio.sleep(0.05)
    assert queue.oldest() > 0
    assert not Health(stalled=queue.stalled, limit=0.01).stuck


async def test_ready_when_told_and_metrics_are_served() -> None:
    health, metrics = Health(stalled=lambda: 0.0), Metrics()
    async with served(health, metrics) as (url, scrape):
        assert (await ask(f"{url}/readyz"))[0] == 503
        health.ready = True
        assert (await ask(f"{url}/readyz"))[0] == 200
        assert "split_ppo_reconciles_total" in (await ask(f"{scrape}/metrics"))[1]
