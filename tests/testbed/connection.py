"""The wire to an API server: authenticated requests, and what resources the server offers.

Any kubeconfig will do (the official client reads it, plugins and all); objects stay plain dictionaries. What the server
offers is asked of the server, so a CRD installed a second ago needs no code here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import kubernetes
import urllib3

DISCOVERY = "application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2"


class ApiError(Exception):
    """The server said no; `status` is HTTP's number."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Resource:
    version: str  # as in apiVersion
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        parts = ["api" if "/" not in self.version else "apis", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        return "/" + "/".join([*parts, self.plural, *filter(None, (name, subresource))])


class Connection:
    def __init__(self, kubeconfig: Path, *, user: str | None = None) -> None:
        """`user`: somebody else to be, for those who may (the API server's impersonation)."""
        self._as_user = {"Impersonate-User": user} if user else {}
        self._client = kubernetes.config.new_client_from_config(config_file=str(kubeconfig))
        self._pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        self._known: dict[str, Resource] = {}

    @property
    def server(self) -> str:
        return str(self._client.configuration.host)

    @property
    def authority(self) -> Path | None:
        """The certificate the server is trusted by; None when it is one everybody trusts."""
        file = self._client.configuration.ssl_ca_cert
        return Path(file) if file else None

    def open(
        self, method: str, path: str, body: object, query: Mapping[str, object], headers: dict[str, str], timeout: float
    ) -> urllib3.BaseHTTPResponse:
        url = self.server + path + ("?" + urlencode(query) if query else "")
        headers |= self._as_user
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        payload = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        response = self._pool.request(
            method, url, body=payload, headers=headers, preload_content=False, retries=False, timeout=timeout
        )
        if response.status >= 400:
            text = response.read().decode(errors="replace")
            response.release_conn()
            try:
                text = json.loads(text)["message"]
            except (ValueError, KeyError, TypeError):
                text = text.strip() or str(response.reason)
            raise ApiError(response.status, f"{method} {path}: {text}")
        return response

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float = 60.0,
    ) -> Any:
        """One request; JSON comes back parsed, anything else as text."""
        headers = {"Accept": accept, "Content-Type": content_type}
        response = self.open(method, path, body, query or {}, headers, timeout)
        text = response.read().decode(errors="replace")
        response.release_conn()
        return json.loads(text) if "json" in response.headers.get("Content-Type", "") else text

    def resource(self, name: str, version: str | None = None) -> Resource:
        """By plural (`rayclusters.ray.io`), or by kind together with its apiVersion."""
        wanted = f"{version} {name}" if version else name
        if wanted not in self._known:
            self._discover()
        if wanted not in self._known:
            raise LookupError(f"The cluster has no resource {wanted!r}. Is its CRD installed?")
        return self._known[wanted]

    def has(self, name: str) -> bool:
        try:
            return bool(self.resource(name))
        except LookupError:
            return False

    def namespaced(self) -> dict[str, Resource]:
        """Everything that lives in namespaces, by the name it is asked for."""
        self._discover()
        return {name: resource for name, resource in self._known.items() if resource.namespaced and " " not in name}

    def _discover(self) -> None:
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=DISCOVERY)["items"]:
                name = group["metadata"].get("name", "")
                for version in reversed(group["versions"]):  # the preferred one comes first and is to win
                    in_full = f"{name}/{version['version']}" if name else version["version"]
                    for found in version.get("resources", []):
                        kind = found["responseKind"]["kind"]
                        resource = Resource(in_full, found["resource"], kind, found["scope"] == "Namespaced")
                        self._known[f"{in_full} {kind}"] = resource
                        self._known[f"{found['resource']}.{name}" if name else found["resource"]] = resource
