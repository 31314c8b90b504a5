"""Talking to an API server: plain dictionaries in and out, and waiting by watch with a deadline.

Resources are named as kubectl names them: `pods`, `rayclusters.ray.io`.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3
import yaml

from testbed.connection import ApiError as ApiError
from testbed.connection import Connection

Manifest = dict[str, Any]
OUR_NAME = "split-ppo-testbed"  # as field manager
CONNECTION_LOST = (urllib3.exceptions.HTTPError, ConnectionError, json.JSONDecodeError)


class DeadlineError(AssertionError):
    """What was waited for did not come; the message holds the last state seen."""


def documents(*sources: Manifest | str | Path | Iterable[Manifest]) -> list[Manifest]:
    """Manifests from dictionaries, YAML text, files, or folders of YAML files, in order."""
    found: list[Manifest] = []
    for source in sources:
        if isinstance(source, Path) and source.is_dir():
            found += documents(*sorted(source.glob("*.y*ml")))
        elif isinstance(source, (str, Path)):
            text = source.read_text() if isinstance(source, Path) else source
            loaded = yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            found += [document for document in loaded if document]
        elif isinstance(source, dict):
            found.append(source)
        else:
            found += source
    return found


class Api(Connection):
    def get(self, resource: str, name: str, *, namespace: str | None = None) -> Manifest:
        return dict(self.request("GET", self.resource(resource).path(namespace, name)))

    def find(
        self, resource: str, *, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        return list(self._listed(resource, namespace, _selectors(labels, fields))["items"])

    def _listed(self, resource: str, namespace: str | None, query: dict[str, object]) -> Manifest:
        return dict(self.request("GET", self.resource(resource).path(namespace), query=query))

    def apply(
        self, *sources: Manifest | str | Path | Iterable[Manifest], namespace: str | None = None
    ) -> list[Manifest]:
        """Server-side apply, in order; `namespace` is for manifests that name none."""
        applied = []
        for manifest in documents(*sources):
            metadata = manifest["metadata"]
            resource = self.resource(manifest["kind"], manifest["apiVersion"])
            path = resource.path(metadata.get("namespace", namespace), metadata["name"])
            query = {"fieldManager": OUR_NAME, "force": "true"}
            applied.append(
                self.request("PATCH", path, manifest, query=query, content_type="application/apply-patch+yaml")
            )
        return applied

    def create(self, manifest: Manifest, *, namespace: str | None = None) -> Manifest:
        resource = self.resource(manifest["kind"], manifest["apiVersion"])
        path = resource.path(manifest["metadata"].get("namespace", namespace))
        return dict(self.request("POST", path, manifest, query={"fieldManager": OUR_NAME}))

    def patch(
        self, resource: str, name: str, change: object, *, namespace: str | None = None, subresource: str | None = None
    ) -> Manifest:
        """A JSON merge patch."""
        path = self.resource(resource).path(namespace, name, subresource)
        return dict(self.request("PATCH", path, change, content_type="application/merge-patch+json"))

    def delete(
        self, resource: str, name: str, *, namespace: str | None = None, options: Mapping[str, object] | None = None
    ) -> None:
        """Ask for deletion; that it is gone already is fine."""
        try:
            self.request("DELETE", self.resource(resource).path(namespace, name), dict(options or {}))
        except ApiError as error:
            if error.status != 404:
                raise

    def logs(self, pod: str, *, namespace: str, container: str = "", previous: bool = False) -> str:
        query: dict[str, object] = {"container": container} if container else {}
        path = self.resource("pods").path(namespace, pod, "log")
        return str(self.request("GET", path, query=query | ({"previous": "true"} if previous else {}), accept="*/*"))

    def watched(
        self, resource: str, *, namespace: str | None = None, labels: str = "", fields: str = "", within: float
    ) -> Iterator[list[Manifest]]:
        """The matching objects now, and again after every change, until the deadline.

        A lost connection, an expired watch or a restarting server only cost a fresh list.
        """
        query = _selectors(labels, fields)
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            try:
                listed = self._listed(resource, namespace, query)
                objects = {item["metadata"]["uid"]: item for item in listed["items"]}
                yield list(objects.values())
                left = deadline - time.monotonic()
                since: dict[str, object] = {"resourceVersion": listed["metadata"]["resourceVersion"]}
                options = query | since | {"watch": "true", "timeoutSeconds": max(1, int(left) + 1)}
                response = self.open(
                    "GET",
                    self.resource(resource).path(namespace),
                    None,
                    options,
                    {"Accept": "application/json"},
                    left + 2,
                )
                try:
                    for line in _lines(response):
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        item = event["object"]
                        if event["type"] == "DELETED":
                            objects.pop(item["metadata"]["uid"], None)
                        else:
                            objects[item["metadata"]["uid"]] = item
                        yield list(objects.values())
                finally:
                    response.close()
            except CONNECTION_LOST:
                _give_it_a_moment()
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    raise
                _give_it_a_moment()

    def wait_all(
        self,
        resource: str,
        until: Callable[[list[Manifest]], object],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        within: float = 60.0,
        what: str = "",
    ) -> list[Manifest]:
        """Wait until the list of matching objects is as `until` wants it, and return it."""
        objects: list[Manifest] = []
        for objects in self.watched(resource, namespace=namespace, labels=labels, fields=fields, within=within):
            if until(objects):
                return objects
        seen = "\n".join(yaml.safe_dump(summary(item), width=160) for item in objects[:5]) or "nothing"
        where = f" in {namespace}" if namespace else ""
        waited = f"Waited {within:.0f} s for {what or 'a change'} of {resource}{where}; it did not come."
        raise DeadlineError(f"{waited} Last seen, {len(objects)} objects:\n{seen}")

    def wait(
        self,
        resource: str,
        name: str,
        until: Callable[[Manifest], object],
        *,
        namespace: str | None = None,
        within: float = 60.0,
        what: str = "",
    ) -> Manifest:
        """Wait until the object exists and is as `until` wants it, and return it."""
        return self.wait_all(
            resource,
            lambda found: bool(found) and until(found[0]),
            namespace=namespace,
            fields=f"metadata.name={name}",
            within=within,
            what=what or f"{name} to be as wanted",
        )[0]

    def wait_gone(self, resource: str, name: str, *, namespace: str | None = None, within: float = 60.0) -> None:
        self.wait_all(
            resource,
            lambda found: not found,
            namespace=namespace,
            fields=f"metadata.name={name}",
            within=within,
            what=f"{name} to be gone",
        )


def condition(manifest: Manifest, kind: str) -> str:
    """The status of one of its conditions; empty when it has none."""
    conditions = manifest.get("status", {}).get("conditions") or []
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


def ready(manifest: Manifest) -> bool:
    return condition(manifest, "Ready") == "True" and "deletionTimestamp" not in manifest["metadata"]


def summary(manifest: Manifest) -> Manifest:
    """What a person looks at first when an object is not as it should be."""
    metadata = {key: manifest["metadata"].get(key) for key in ("namespace", "name", "deletionTimestamp")}
    return {
        "kind": manifest.get("kind"),
        **{k: v for k, v in metadata.items() if v},
        "status": manifest.get("status", {}),
    }


def _selectors(labels: str, fields: str) -> dict[str, object]:
    return {key: value for key, value in {"labelSelector": labels, "fieldSelector": fields}.items() if value}


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(amt=None):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _give_it_a_moment() -> None:
    """Between two attempts to reach a server that is down: nothing can tell us when it is back."""
    time.sleep(0.2)
