"""What can be done to the world. A plan is a list of these; `act` carries them out, each safe to repeat."""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Apply:
    """Make these objects, or leave them if they are there."""

    objects: tuple[Object, ...]


@dataclass(frozen=True)
class DeleteCluster:
    name: str
    uid: str


@dataclass(frozen=True)
class ShrinkCluster:
    """Take the pools away and leave the head."""

    manifest: Object


@dataclass(frozen=True)
class Submit:
    """Hand the training to Ray; an id that is already there counts as done."""

    cluster: str
    id: str
    entrypoint: str
    metadata: dict[str, str]


@dataclass(frozen=True)
class Stop:
    cluster: str
    id: str


@dataclass(frozen=True)
class DeleteJob:
    uid: str


Action = Apply | DeleteCluster | ShrinkCluster | Submit | Stop | DeleteJob
