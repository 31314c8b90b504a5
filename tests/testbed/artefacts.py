"""What is kept of a failed test: one folder with everything one would have asked the cluster for, had one been there.

Collecting must never hide the failure itself: a cluster that no longer answers is written down, not raised.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import yaml

from testbed.api import ApiError, Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

LAST_BYTES = 4_000_000  # of each component's log
UNTOLD = ("secrets", "endpoints", "componentstatuses")  # private, or a second view of what is listed anyway


def collect(namespace: Namespace, folder: Path) -> None:
    """Write objects, events and pod logs of the namespace, and the logs of the components where they are ours."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    problems: list[str] = []
    for collecting in (_events, _objects, _pod_logs, _nodes, _components):
        _attempt(lambda collecting=collecting: collecting(namespace, folder), problems)  # type: ignore[misc]
    if problems:
        (folder / "not-collected.txt").write_text("\n".join(problems) + "\n")


def _attempt(collecting: Callable[[], None], problems: list[str]) -> None:
    try:
        collecting()
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}")


def _events(namespace: Namespace, folder: Path) -> None:
    lines = []
    for event in namespace.find("events"):
        about = event["involvedObject"]
        when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
        words = (when, event["type"], event["reason"], f"{about['kind']}/{about['name']}", event.get("message", ""))
        lines.append("  ".join(str(word) for word in words))
    (folder / "events.txt").write_text("\n".join(sorted(lines)) + "\n")


def _objects(namespace: Namespace, folder: Path) -> None:
    (folder / "objects").mkdir()
    for name, resource in sorted(namespace.api.namespaced().items()):
        if name in UNTOLD or name.startswith("events"):
            continue
        try:
            found = namespace.find(name)
        except ApiError:  # not everything that is namespaced can be listed
            continue
        if found:
            _write(folder / "objects" / f"{resource.plural}.yaml", found)


def _pod_logs(namespace: Namespace, folder: Path) -> None:
    (folder / "pods").mkdir()
    for pod in namespace.find("pods"):
        statuses = [*pod["status"].get("initContainerStatuses", []), *pod["status"].get("containerStatuses", [])]
        for status in statuses:
            for previous in (False, True) if status["restartCount"] else (False,):
                file = (
                    folder / "pods" / f"{pod['metadata']['name']}.{status['name']}{'.previous' if previous else ''}.log"
                )
                try:
                    file.write_text(
                        namespace.logs(pod["metadata"]["name"], container=status["name"], previous=previous)
                    )
                except ApiError as error:
                    file.write_text(f"(not to be had: {error})\n")


def _nodes(namespace: Namespace, folder: Path) -> None:
    _write(folder / "nodes.yaml", namespace.api.find("nodes")[:20])


def _components(namespace: Namespace, folder: Path) -> None:
    if isinstance(namespace.cluster, LocalCluster):
        for log in sorted(namespace.cluster.run.folder.glob("*/*.log")):
            target = folder / "components" / log.relative_to(namespace.cluster.run.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with log.open("rb") as source:
                source.seek(max(0, log.stat().st_size - LAST_BYTES))
                target.write_bytes(source.read())


def _write(file: Path, objects: list[Manifest]) -> None:
    for manifest in objects:
        manifest["metadata"].pop("managedFields", None)
    file.write_text(yaml.safe_dump_all(objects, width=160))
