"""/healthz, /readyz and /metrics. Health fails when work is there and none gets done, which a restart may cure.

An API server that does not answer is no reason to restart: looks then fail, which is work done. A replica that waits for the
Lease has no work. An event loop that hangs answers nothing, which the kubelet takes for a failure too.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

STUCK_SECONDS = 180.0


@dataclass
class Health:
    """`stalled` says for how many seconds there has been work of which none was done."""

    stalled: Callable[[], float]
    limit: float = STUCK_SECONDS
    ready: bool = False

    @property
    def stuck(self) -> bool:
        return self.stalled() > self.limit


async def serve(
    health: Health,
    registry: CollectorRegistry,
    refresh: Callable[[], None],
    *,
    health_port: int,
    metrics_port: int,
) -> list[web.AppRunner]:
    """Start the servers whose port is not 0; the runners are to be cleaned up at the end. `refresh` comes before each scrape."""

    async def healthz(request: web.Request) -> web.Response:
        if health.stuck:
            return web.Response(status=500, text=f"stuck: no job was looked at for {health.stalled():.0f} s")
        return web.Response(text="ok")

    async def readyz(request: web.Request) -> web.Response:
        return web.Response(status=200 if health.ready else 503, text="ok" if health.ready else "starting")

    async def scrape(request: web.Request) -> web.Response:
        refresh()
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    runners = []
    for port, routes in (
        (health_port, [web.get("/healthz", healthz), web.get("/readyz", readyz)]),
        (metrics_port, [web.get("/metrics", scrape)]),
    ):
        if not port:
            continue
        app = web.Application()
        app.add_routes(routes)
        # A scrape under way at the end is not waited for: the process has few seconds.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, port=port).start()
        except OSError as error:
            raise SystemExit(f"Port {port} can't be served, choose another: {error.strerror}.") from error
        runners.append(runner)
    return runners
