"""How much of a resource is free, for the sentence about pods that find no node. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]


def free_resources(resource: str, nodes: Iterable[Object], pods: Iterable[Object]) -> str:
    """Free amounts of an extended resource (whole numbers) over the nodes that have any."""
    used: Counter[str] = Counter()
    for pod in pods:
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            used[pod["spec"].get("nodeName", "")] += _requested(resource, pod)
    free = {}
    for node in nodes:
        total = int(node.get("status", {}).get("allocatable", {}).get(resource, 0))
        if total:
            free[node["metadata"]["name"]] = max(total - used[node["metadata"]["name"]], 0)
    if not free:
        return f"No node has any {resource}."
    return f"Of {resource}, {sum(free.values())} are free on {len(free)} nodes, at most {max(free.values())} on one."


def _requested(resource: str, pod: Object) -> int:
    containers = pod["spec"].get("containers", [])
    return sum(int(c.get("resources", {}).get("requests", {}).get(resource, 0)) for c in containers)
