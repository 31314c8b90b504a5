"""/healthz, /readyz and /metrics. Health fails when work waits and none gets done, which a restart may cure."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from split_ppo_operator.metrics import Metrics

STUCK_SECONDS = 180.0


@dataclass
class Health:
    """When work was last done, and whether any waits."""

    waiting: Callable[[], int]
    ready: bool = False
    _last_done: float = field(default_factory=time.monotonic)

    def done(self) -> None:
        self._last_done = time.monotonic()

    def stuck(self) -> bool:
        if self.waiting() == 0:
            self._last_done = time.monotonic()
        return time.monotonic() - self._last_done > STUCK_SECONDS


async def serve(health: Health, metrics: Metrics, *, health_port: int, metrics_port: int) -> list[web.AppRunner]:
    """Start the servers whose port is not 0; the runners are to be cleaned up at the end."""

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(status=500 if health.stuck() else 200, text="stuck" if health.stuck() else "ok")

    async def readyz(request: web.Request) -> web.Response:
        return web.Response(status=200 if health.ready else 503, text="ok" if health.ready else "starting")

    async def scrape(request: web.Request) -> web.Response:
        metrics.queue_depth.set(health.waiting())
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    runners = []
    for port, routes in (
        (health_port, [web.get("/healthz", healthz), web.get("/readyz", readyz)]),
        (metrics_port, [web.get("/metrics", scrape)]),
    ):
        if not port:
            continue
        app = web.Application()
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, port=port).start()
        runners.append(runner)
    return runners
