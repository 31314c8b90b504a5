"""`python -m split_ppo_operator`: settings, watchers, leader election, workers; SIGTERM ends all of it."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from datetime import UTC, datetime

from split_ppo_operator.census import Census
from split_ppo_operator.cluster import JOBS, ApiError, Cluster, load_configuration
from split_ppo_operator.handlers import watch
from split_ppo_operator.health import Health, serve
from split_ppo_operator.lease import Lease, LeaseLost
from split_ppo_operator.logs import configure_logs, looking_at
from split_ppo_operator.metrics import Metrics
from split_ppo_operator.newborn import Newborn
from split_ppo_operator.queue import KeyedQueue
from split_ppo_operator.reconcile import Key, reconcile
from split_ppo_operator.settings import Settings, read_settings

log = logging.getLogger("split_ppo.operator")
# A look is a handful of requests, each with a deadline of its own; one that takes longer is given up and begun anew.
LOOK_SECONDS = 120.0
# Kubernetes gives a pod 30 s to end; whoever waits for a Lease should not.
STOP_SECONDS, RELEASE_SECONDS = 2.5, 1.5


async def operate(settings: Settings) -> int:
    metrics, census, newborn = Metrics(), Census(), Newborn()
    allowed = frozenset(settings.allow_in_pod_template)
    cluster = Cluster(await load_configuration(), on_request=metrics.on_request)

    async def work(key: Key) -> float | None:
        with looking_at(str(key)), metrics.reconcile_seconds.time():
            async with asyncio.timeout(LOOK_SECONDS):
                after = await reconcile(
                    cluster, key, lambda: datetime.now(UTC), metrics.on_change, allowed, newborn.take(key)
                )
        metrics.reconciles.labels("done").inc()
        return after

    def failed(key: Key, error: Exception) -> float | None:
        metrics.reconciles.labels("failed").inc()
        expected = isinstance(error, ApiError | TimeoutError)
        words = str(error) or f"a look took more than {LOOK_SECONDS:.0f} s"
        log.warning("will look again: %s", words, extra={"job": str(key)}, exc_info=None if expected else error)
        return error.retry_after if isinstance(error, ApiError) else None

    def refresh() -> None:
        metrics.queue_depth.set(queue.depth())
        metrics.queue_oldest.set(queue.oldest())
        metrics.leader.set(lease.held or not settings.leader_election)
        metrics.count_jobs(census.phases() if lease.held or not settings.leader_election else ())

    def became_ready() -> None:
        health.ready = True

    queue: KeyedQueue[Key] = KeyedQueue(work, failed)
    health = Health(stalled=queue.stalled)
    identity = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    lease = Lease(
        cluster,
        namespace=settings.lease_namespace,
        name=settings.lease_name,
        identity=identity,
        seconds=settings.lease_seconds,
    )
    servers = await serve(
        health, metrics.registry, refresh, health_port=settings.health_port, metrics_port=settings.metrics_port
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tasks = [
        asyncio.create_task(
            watch(cluster, settings.namespaces, queue.add, census, newborn, became_ready), name="watchers"
        ),
        asyncio.create_task(_lead(settings, cluster, queue, census, lease), name="leader"),
    ]
    stopping = asyncio.create_task(stop.wait(), name="signal")
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        return _outcome([task for task in tasks if task.done()])
    finally:
        health.ready = False
        for task in (*tasks, stopping):
            task.cancel()
        # Whoever acts must have ended before the Lease is given back; the watchers only watch.
        await asyncio.wait(tasks[1:], timeout=STOP_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await lease.release()
        for server in servers:
            await server.cleanup()
        await cluster.close()


def _outcome(done: list["asyncio.Task[None]"]) -> int:
    """0 when asked to stop; what ended with an error should not have."""
    failed = [(task.get_name(), error) for task in done if not task.cancelled() and (error := task.exception())]
    for name, error in failed:
        lost = _find(error, LeaseLost)
        if lost is not None:
            log.error("%s; ending, so that nobody acts twice", lost)
        else:
            log.error("the %s ended: %s", name, error, exc_info=error)
    return 1 if failed else 0


def _find(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The error itself, or one of a group's."""
    if isinstance(error, kind):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for e in inner if (found := _find(e, kind))), None)


async def _lead(settings: Settings, cluster: Cluster, queue: KeyedQueue[Key], census: Census, lease: Lease) -> None:
    """Act while the Lease is ours."""
    async with asyncio.TaskGroup() as group:
        if settings.leader_election:
            await lease.acquire()
            group.create_task(lease.keep())
        log.info("leading")
        group.create_task(queue.run(settings.workers))
        group.create_task(_resync(settings, cluster, queue, census))


async def _resync(settings: Settings, cluster: Cluster, queue: KeyedQueue[Key], census: Census) -> None:
    """Every job once in a while: events can be lost, deletions while a watch is down always are."""
    while True:
        with contextlib.suppress(ApiError):
            counted = Census()
            for namespace in settings.namespaces or (None,):
                async for jobs in cluster.pages(JOBS, namespace=namespace):
                    for job in jobs:
                        counted.see(job)
            census.replace(counted)
            for key in counted.jobs():
                queue.add(key)
        await asyncio.sleep(settings.resync_seconds)


def main() -> None:
    settings = read_settings(sys.argv[1:])
    configure_logs(form=settings.log_format, level=settings.log_level)
    code = asyncio.Runner().run(operate(settings))
    # Without a farewell: all that matters is done, and kopf's thread would be waited for.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
