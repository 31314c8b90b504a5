"""Rights that were granted, and rights that were used: the one from roles, the other from the API server's audit log."""

from collections.abc import Iterable
from typing import Any, NamedTuple

Object = dict[str, Any]


class Right(NamedTuple):
    group: str
    resource: str  # with its subresource
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


def granted(roles: Iterable[Object]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(entries: Iterable[Object]) -> set[Right]:
    """What was asked for, refused or not. A server-side apply that makes an object needs the right to create as well."""
    found = set()
    for entry in entries:
        right = asked(entry)
        if right is None:
            continue
        found.add(right)
        if right.verb == "patch" and entry.get("responseStatus", {}).get("code") == 201:
            found.add(right._replace(verb="create"))
    return found


def refused(entries: Iterable[Object]) -> set[Right]:
    found = {asked(e) for e in entries if e.get("responseStatus", {}).get("code") == 403}
    return {right for right in found if right is not None}


def asked(entry: Object) -> Right | None:
    """Of a request for an object; None for discovery and the like, which everybody may."""
    target = entry.get("objectRef")
    if not target:
        return None
    resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
    return Right(target.get("apiGroup", ""), resource, entry["verb"])


def owned_account(owner: Object) -> Object:
    """A ServiceAccount that goes with its owner."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "owned", "ownerReferences": [reference]}}
