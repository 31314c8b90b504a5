"""The user's cluster, with the user's own rights: a kubeconfig, a context, a namespace, and plain requests.

Objects stay mappings. Whatever goes wrong is raised as a ClusterError, whose text is a sentence for the user.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
import yaml

from split_ppo.api import GROUP, PLURAL, VERSION
from split_ppo.cli.refusals import Answer, ClusterError, explain, unknown, unreachable

Object = dict[str, Any]
FIELD_MANAGER = "split-ppo-cli"
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
JOBS = f"apis/{GROUP}/{VERSION}"


@dataclass
class ApiServer:
    """A cluster and a namespace in it."""

    client: Any
    context: str
    namespace: str
    namespace_given: bool

    @classmethod
    def connect(cls, *, kubeconfig: str | None, context: str | None, namespace: str | None) -> "ApiServer":
        """As kubectl would: --kubeconfig, else $KUBECONFIG, else ~/.kube/config, else the pod this runs in."""
        from kubernetes import client, config

        file = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        try:
            if kubeconfig is None and not _has_kubeconfig() and os.environ.get("KUBERNETES_SERVICE_HOST"):
                configuration = client.Configuration()
                config.load_incluster_config(client_configuration=configuration)
                own = IN_CLUSTER.read_text().strip() if IN_CLUSTER.exists() else "default"
                return cls(client.ApiClient(configuration), "", namespace or own, bool(namespace))
            known, active = _contexts(file)
        except (config.ConfigException, yaml.YAMLError, OSError, LookupError, TypeError, AttributeError) as error:
            raise ClusterError(f"The kubeconfig {file} can't be used: {' '.join(str(error).split())}") from None
        name = context or active
        if not name:
            raise ClusterError(f"The kubeconfig {file} has no current context: choose one with --context.")
        if name not in known:
            raise ClusterError(unknown("context", name, known, where=" in the kubeconfig"))
        try:
            made = config.new_client_from_config(config_file=file, context=name)
        except (config.ConfigException, OSError) as error:
            raise ClusterError(f"The context {name} can't be used: {error}") from None
        return cls(made, name, namespace or known[name].get("namespace") or "default", bool(namespace))

    def jobs_path(self, name: str | None = None, *, all_namespaces: bool = False) -> str:
        return self.path(JOBS, PLURAL, name, namespaced=not all_namespaces)

    def path(self, prefix: str, plural: str, name: str | None = None, *rest: str, namespaced: bool = True) -> str:
        where = ["namespaces", self.namespace] if namespaced else []
        parts = [*where, plural, *([name] if name else []), *rest]
        return f"/{prefix}/" + "/".join(_segment(part) for part in parts)

    def get(self, path: str, *, query: Mapping[str, str] | None = None, purpose: str = "") -> Object:
        return self.json("GET", path, query=query, purpose=purpose)

    def find(self, plural: str, *, labels: str, purpose: str = "") -> list[Object]:
        """Core objects of the namespace by their labels."""
        return list(self.get(self.path("api/v1", plural), query={"labelSelector": labels}, purpose=purpose)["items"])

    def json(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        purpose: str = "",
    ) -> Object:
        response = self.open(method, path, body, query=query, content_type=content_type, purpose=purpose)
        try:
            return dict(json.loads(self._read(response)))
        finally:
            # Read to its end, the connection is the pool's again; interrupted before, nothing more can be asked on it.
            response.close()

    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        patience: float | None = 60.0,
        purpose: str = "",
    ) -> urllib3.BaseHTTPResponse:
        """A response to read from; refusals are raised. `patience`: seconds without a byte, None for ever."""
        sent = {"Accept": "application/json", "User-Agent": FIELD_MANAGER, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        self.client.update_params_for_auth(sent, [], ["BearerToken"], path, method, body)
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        try:
            response: urllib3.BaseHTTPResponse = self.client.rest_client.pool_manager.request(
                method,
                url,
                body=json.dumps(body) if body is not None else None,
                headers=sent,
                preload_content=False,
                retries=False,
                timeout=urllib3.Timeout(connect=10.0, read=patience),
            )
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self.server, error, context=self.context) from None
        if response.status >= 400:
            answer = Answer(response.status, self._read(response))
            response.release_conn()
            if answer.from_api_server or not headers:
                raise explain(answer, path=path, context=self.context, purpose=purpose)
            raise ServiceRefusal(answer)
        return response

    def lines(self, response: urllib3.BaseHTTPResponse) -> Iterator[str]:
        """The response line by line, as it comes."""
        rest = b""
        try:
            for chunk in response.stream(amt=None):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in whole)
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self.server, error, context=self.context) from None
        finally:
            response.close()
        if rest:
            yield rest.decode(errors="replace")

    @property
    def server(self) -> str:
        return str(self.client.configuration.host).rstrip("/")

    def _read(self, response: urllib3.BaseHTTPResponse) -> str:
        try:
            return response.read().decode(errors="replace")
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(self.server, error, context=self.context) from None


class ServiceRefusal(Exception):
    """A service behind the API server said no: code and text are its own."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status}: {answer.text.strip()[:300]}")
        self.status = answer.status


def _segment(name: str) -> str:
    """A name as one part of a path; some come out of a status, and none may lead to another place."""
    if name in (".", ".."):
        raise ClusterError(f"{name!r} is no name.")
    return quote(name, safe=":")


def _has_kubeconfig() -> bool:
    return bool(os.environ.get("KUBECONFIG")) or Path("~/.kube/config").expanduser().exists()


def _contexts(file: str) -> tuple[dict[str, Object], str]:
    """What the kubeconfig, or several joined as KUBECONFIG may name them, knows; and the current one, if there is one."""
    from kubernetes.config.kube_config import KubeConfigMerger

    merged = KubeConfigMerger(file).config
    if merged is None:
        raise ClusterError(
            f"There is no kubeconfig at {file}, so there is no cluster to talk to: name one with --kubeconfig or KUBECONFIG."
        )
    # What it joins from several files it keeps in nodes of its own.
    entries = [getattr(entry, "value", entry) for entry in merged.value.get("contexts") or []]
    known = {entry["name"]: entry.get("context") or {} for entry in entries}
    return known, str(merged.value.get("current-context") or "")
