"""The only module (with `lease`) that talks to the API server: a few verbs, errors with their code, nothing decided.

Credentials come from the Kubernetes client's own configuration, which refreshes tokens; requests are plain REST, because every
object here is a mapping that goes through unchanged.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import client, config

Object = dict[str, Any]
FIELD_MANAGER = "split-ppo"
TIMEOUT = aiohttp.ClientTimeout(total=30)
REMEMBER_SECONDS = 30.0


class ApiError(Exception):
    """A refusal or failure of the API server; status 0 when it could not be reached."""

    def __init__(self, status: int, message: str, *, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.reason, self.retry_after = status, message, reason, retry_after

    @property
    def transient(self) -> bool:
        """Whether the same call may go through later."""
        # For half a minute after our CRD is installed, the admission plugin that checks owners has not heard of it.
        unheard_of = self.status == 403 and "cannot find RESTMapping" in self.message
        return self.status in (0, 408, 409, 429) or self.status >= 500 or unheard_of


@dataclass(frozen=True)
class Resource:
    """Where objects of a kind are found."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        parts += ["namespaces", segment(namespace)] if namespace else []
        parts += [self.plural, *([segment(name)] if name else []), *([subresource] if subresource else [])]
        return "/".join(parts)


def segment(name: str) -> str:
    """A name as one part of a path. Some come from a status that others may write too: none may lead to another place."""
    if name in (".", ".."):
        raise ApiError(400, f"{name!r} is no name")
    return quote(name, safe=":")


JOBS = Resource("splitppo.io", "v1alpha1", "splitppojobs")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads")
PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
EVENTS = Resource("", "v1", "events")
SECRETS = Resource("", "v1", "secrets")
SERVICES = Resource("", "v1", "services")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
_BY_KIND = {
    "ServiceAccount": Resource("", "v1", "serviceaccounts"),
    "Role": Resource("rbac.authorization.k8s.io", "v1", "roles"),
    "RoleBinding": Resource("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "RayCluster": RAY_CLUSTERS,
}
Observer = Callable[[str, int], None]


def in_a_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


async def load_configuration() -> client.Configuration:
    """In a pod its own, elsewhere the user's kubeconfig."""
    configuration = client.Configuration()
    if in_a_pod():
        config.load_incluster_config(client_configuration=configuration)
    else:
        await config.load_kube_config(client_configuration=configuration)
    return configuration


def proxy_for(configuration: client.Configuration) -> str | None:
    """The kubeconfig's, else the environment's. Asked once: aiohttp's own `trust_env` asks in a thread before every request."""
    server = urlsplit(configuration.host)
    if configuration.proxy or proxy_bypass(server.hostname or ""):
        return configuration.proxy or None
    return getproxies().get(server.scheme)


class Cluster:
    """The API server. `on_request` hears of every answer (verb, code)."""

    def __init__(self, configuration: client.Configuration, *, on_request: Observer = lambda verb, code: None) -> None:
        self._client = client.ApiClient(configuration)
        self._session: aiohttp.ClientSession | None = None
        self._on_request = on_request
        self._remembered: dict[str, tuple[float, asyncio.Future[str]]] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._client.close()

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        """The object, or None where there is none."""
        try:
            return await self._json("GET", resource.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def find(
        self, resource: Resource, *, namespace: str | None = None, labels: str = "", fields: str = "", limit: str = ""
    ) -> list[Object]:
        options = {"labelSelector": labels, "fieldSelector": fields, "limit": limit}
        query = {k: v for k, v in options.items() if v}
        listed = await self._json("GET", resource.path(namespace), query=query)
        return list(listed.get("items", []))

    async def pages(
        self, resource: Resource, *, namespace: str | None = None, fields: str = ""
    ) -> AsyncIterator[list[Object]]:
        """Everything there is, a hundred at a time: what is held at once does not grow with their number."""
        query = {"limit": "100", **({"fieldSelector": fields} if fields else {})}
        while True:
            listed = await self._json("GET", resource.path(namespace), query=query)
            yield list(listed.get("items", []))
            if not (go_on := listed["metadata"].get("continue")):
                return
            query["continue"] = go_on

    async def remembered(self, key: str, ask: Callable[["Cluster", str], Awaitable[str]], about: str) -> str:
        """What `ask` said in the last half minute, for sentences that many jobs want and that need not be new."""
        known = self._remembered.get(key)
        if known is None or time.monotonic() - known[0] > REMEMBER_SECONDS:
            known = self._remembered[key] = time.monotonic(), asyncio.ensure_future(ask(self, about))
        try:
            return await asyncio.shield(known[1])
        except ApiError:
            self._remembered.pop(key, None)
            raise

    async def apply(self, manifest: Object) -> Object:
        """Server-side apply with our field manager."""
        metadata = manifest["metadata"]
        path = _BY_KIND[manifest["kind"]].path(metadata["namespace"], metadata["name"])
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._json("PATCH", path, body=manifest, query=query, content_type="application/apply-patch+yaml")

    async def apply_status(self, resource: Resource, manifest: Object) -> Object:
        metadata = manifest["metadata"]
        path = resource.path(metadata["namespace"], metadata["name"], "status")
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._json("PATCH", path, body=manifest, query=query, content_type="application/apply-patch+yaml")

    async def create_or_apply(self, manifest: Object) -> None:
        """Made by a create, which the API server answers sooner; whatever is there under this name is put right by an apply."""
        try:
            await self.create(_BY_KIND[manifest["kind"]], manifest, namespace=manifest["metadata"]["namespace"])
        except ApiError as error:
            if error.status != 409:
                raise
            await self.apply(manifest)

    async def create_once(self, manifest: Object) -> None:
        """Make it, or leave it if it is there and its owner is the same."""
        resource, metadata = _BY_KIND[manifest["kind"]], manifest["metadata"]
        try:
            await self.create(resource, manifest, namespace=metadata["namespace"])
        except ApiError as error:
            if error.status != 409:
                raise
            there = await self.find(
                resource, namespace=metadata["namespace"], fields=f"metadata.name={metadata['name']}"
            )
            if [controller(found) for found in there] != [controller(manifest)]:
                raise

    async def create(self, resource: Resource, manifest: Object, *, namespace: str) -> Object:
        return await self._json("POST", resource.path(namespace), body=manifest, query={"fieldManager": FIELD_MANAGER})

    async def replace(self, resource: Resource, manifest: Object, *, namespace: str) -> Object:
        path = resource.path(namespace, manifest["metadata"]["name"])
        return await self._json("PUT", path, body=manifest, query={"fieldManager": FIELD_MANAGER})

    async def delete(self, resource: Resource, name: str, *, namespace: str, uid: str) -> None:
        """Delete this very object: one that was made anew under the same name stays."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._json("DELETE", resource.path(namespace, name), body=options)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def proxy(
        self, method: str, path: str, *, namespace: str, service: str, token: str, body: Object | None = None
    ) -> tuple[int, str]:
        """Code and text of a service's own answer. What the API server itself refuses raises, so the two can't be mixed up."""
        url = SERVICES.path(namespace, service, "proxy") + path
        status, text, kind = await self._request(
            method, url, body=body, headers={"x-ray-authorization": f"Bearer {token}"}
        )
        if status >= 400 and kind == "application/json" and '"kind":"Status"' in text.replace(" ", ""):
            raise _error(status, text, {})
        return status, text

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        headers: dict[str, str] = {}
        status, text, _ = await self._request(
            method, path, body=body, query=query, content_type=content_type, seen=headers
        )
        if status >= 400:
            raise _error(status, text, headers)
        return dict(json.loads(text))

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        seen: dict[str, str] | None = None,
    ) -> tuple[int, str, str]:
        sent = {"Accept": "application/json", "User-Agent": FIELD_MANAGER, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        await self._client.update_params_for_auth(sent, [], ["BearerToken"], path, method, body)
        url = f"{self._client.configuration.host}{quote(path, safe='/:?=&%')}" + (
            f"?{urlencode(query)}" if query else ""
        )
        data = json.dumps(body) if body is not None else None
        try:
            async with self._open().request(method, url, data=data, headers=sent) as response:
                text = await response.text()
                self._on_request(method, response.status)
                if seen is not None:
                    seen.update({k.lower(): v for k, v in response.headers.items()})
                return response.status, text, response.content_type
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._on_request(method, 0)
            raise ApiError(0, f"the API server can't be reached: {error or type(error).__name__}") from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._client.rest_client.ssl_context, limit=64)
            proxy = proxy_for(self._client.configuration)
            self._session = aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, proxy=proxy)
        return self._session


def controller(found: Object) -> str | None:
    """The uid of the object that this one belongs to."""
    return next((o["uid"] for o in found["metadata"].get("ownerReferences", []) if o.get("controller")), None)


def _error(status: int, text: str, headers: Mapping[str, str]) -> ApiError:
    try:
        answer = json.loads(text)
        message, reason = str(answer.get("message", text)), str(answer.get("reason", ""))
    except ValueError:
        message, reason = text.strip()[:500], ""
    after = headers.get("retry-after", "")
    return ApiError(status, message, reason=reason, retry_after=float(after) if after.isdigit() else None)
