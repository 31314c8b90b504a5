"""Laying a user's podTemplate over ours, by the rules people know from `kubectl patch`.

Mappings are joined. Lists of things that have a name (containers, env, volumes, …) are joined by it; tolerations are added;
any other list replaces. null removes.
"""

from collections.abc import Mapping
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "hostAliases": "ip",
}
_ADDED = {"tolerations", "envFrom", "topologySpreadConstraints"}


def overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A new mapping: `over` on `base`."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _join(key, result.get(key), value)
    return result


def _join(key: str, old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return overlay(old, new)
    if isinstance(old, list) and isinstance(new, list):
        if key in _ADDED:
            return [*old, *(item for item in new if item not in old)]
        if key in _KEYS:
            return _join_named(_KEYS[key], old, new)
    return new


def _join_named(name: str, old: list[Any], new: list[Any]) -> list[Any]:
    over = {item.get(name): item for item in new if isinstance(item, Mapping)}
    joined = [overlay(item, over.pop(item.get(name))) if item.get(name) in over else item for item in old]
    return [*joined, *over.values()]
