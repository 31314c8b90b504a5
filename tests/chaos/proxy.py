"""A proxy before the API server that does what networks and servers do: loses replies, refuses, stalls, cuts watches.

The operator is given a kubeconfig that points here; nothing in it knows. What happens to a request is decided by a rule of the
test, a function from a `Call` to a `Fault`. Everything that passed is remembered, so a test can count writes and requests.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import kubernetes
import yaml
from aiohttp import web

WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Call:
    """A request as it came in. `number` counts from 1, `write` the writes among them."""

    number: int
    write: int
    method: str
    path: str
    watch: bool
    time: float
    body: bytes = b""

    @property
    def writes(self) -> bool:
        return self.method in WRITES

    @property
    def lease(self) -> bool:
        return "/leases" in self.path

    @property
    def meaning(self) -> tuple[str, ...]:
        """The same for writes that say the same, whenever they are tried: without times."""
        said = self._content.get("status", {}) if self.path.endswith("/status") else self._content
        return self.method, self.target, str(said.get("phase", "")), str(said.get("reason", ""))

    @property
    def target(self) -> str:
        """The path of the object itself, also where it is only being created."""
        name = self._content.get("metadata", {}).get("name") if self.method == "POST" else None
        return f"{self.path}/{name}" if name else self.path

    @property
    def _content(self) -> dict[str, Any]:
        return dict(json.loads(self.body)) if self.body.startswith(b"{") else {}


@dataclass(frozen=True)
class Fault:
    """What happens to a request. In this order: wait, do something, answer or drop; else forward, do something, drop."""

    delay: float = 0.0
    before: Callable[[], None] | None = None
    status: int | None = None
    retry_after: int | None = None
    drop: bool = False
    after: Callable[[], None] | None = None
    lose_reply: bool = False


NOTHING = Fault()
Rule = Callable[[Call], Fault]


@dataclass
class FaultProxy:
    """Used with `with`; `rule` may be changed at any time."""

    upstream: Path
    rule: Rule = lambda call: NOTHING
    calls: list[Call] = field(default_factory=list)
    # Method, path, answer of every write that reached the API server.
    written: list[tuple[str, str, int]] = field(default_factory=list)
    _watches: set[asyncio.Task[Any]] = field(default_factory=set)

    def __enter__(self) -> "FaultProxy":
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(self.upstream), client_configuration=configuration)
        self._server = configuration.host
        self._ssl = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            self._ssl.load_cert_chain(configuration.cert_file, configuration.key_file)
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(30), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def kubeconfig(self, folder: Path) -> Path:
        """For the operator: this proxy, which has the rights of the kubeconfig behind it."""
        file = folder / "proxy.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "proxy", "user": {"token": "none"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
        file.write_text(yaml.safe_dump(content))
        return file

    def cut_watches(self) -> int:
        """End every watch in the middle, as a load balancer that restarts would."""

        async def cut() -> int:
            watches = list(self._watches)
            for task in watches:
                task.cancel()
            return len(watches)

        return asyncio.run_coroutine_threadsafe(cut(), self._loop).result(30)

    def requests_within(self, seconds: float) -> int:
        since = time.monotonic() - seconds
        return sum(call.time >= since for call in self.calls)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        started.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]

    async def _stop(self) -> None:
        for task in list(self._watches):
            task.cancel()
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch") == "true"
        write = sum(c.writes for c in self.calls) + (request.method in WRITES)
        body = await request.read()
        call = Call(len(self.calls) + 1, write, request.method, request.path, watch, time.monotonic(), body)
        self.calls.append(call)
        fault = self.rule(call)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.before:
            fault.before()
        if fault.drop:
            return _drop(request)
        if fault.status == 410 and watch:
            return _expired()
        if fault.status is not None:
            return _refusal(fault)
        headers = {
            k: v for k, v in request.headers.items() if k.lower() not in ("host", "authorization", "content-length")
        }
        url = self._server + request.path_qs
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if watch and answer.status == 200:
                return await self._stream(request, answer)
            text = await answer.read()
        if call.writes:
            self.written.append((call.method, call.target, answer.status))
        if fault.after:
            fault.after()
        if fault.lose_reply:
            return _drop(request)
        kept = {
            k: v for k, v in answer.headers.items() if k.lower() in ("content-type", "content-encoding", "retry-after")
        }
        return web.Response(status=answer.status, body=text, headers=kept)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
        except (aiohttp.ClientError, ConnectionError, asyncio.CancelledError):
            _drop(request)
        finally:
            self._watches.discard(task)
        return response


def _drop(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()  # type: ignore[attr-defined]
    return web.Response()


def _expired() -> web.Response:
    """A watch from a version that the API server has forgotten: it says so inside the stream."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
    event = {"type": "ERROR", "object": {**status, "message": "too old resource version"}}
    return web.Response(text=json.dumps(event) + "\n", content_type="application/json")


def _refusal(fault: Fault) -> web.Response:
    """As the API server says no."""
    assert fault.status is not None
    reasons = {403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 404: "NotFound"}
    reason = reasons.get(fault.status, "InternalError")
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason}
    text = json.dumps({**status, "code": fault.status, "message": f"the test says {reason}"})
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after is not None else {}
    return web.Response(status=fault.status, text=text, content_type="application/json", headers=headers)
