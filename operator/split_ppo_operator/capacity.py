"""How much of a resource is free, for the sentence about pods that find no node. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]


class FreeCount:
    """Free amounts of an extended resource (whole numbers) over the nodes that have any; nodes and pods come in pieces."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._total: dict[str, int] = {}
        self._used: Counter[str] = Counter()

    def add_nodes(self, nodes: Iterable[Object]) -> None:
        for node in nodes:
            total = int(node.get("status", {}).get("allocatable", {}).get(self._resource, 0))
            if total:
                self._total[node["metadata"]["name"]] = total

    def add_pods(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                self._used[pod["spec"].get("nodeName", "")] += self._requested(pod)

    def words(self) -> str:
        free = [max(total - self._used[name], 0) for name, total in self._total.items()]
        if not free:
            return f"No node has any {self._resource}."
        return f"Of {self._resource}, {sum(free)} are free on {len(free)} nodes, at most {max(free)} on one."

    def _requested(self, pod: Object) -> int:
        containers = pod["spec"].get("containers", [])
        return sum(int(c.get("resources", {}).get("requests", {}).get(self._resource, 0)) for c in containers)
