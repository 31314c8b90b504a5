"""Checks that only matter where Kubernetes makes the pods: names, shared storage, queues."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from posixpath import normpath

from split_ppo.api.job import MAX_NAME
from split_ppo.placement.checks.case import Case, Check, finding
from split_ppo.placement.plan import Finding

# Of the 256 KiB that a pod's annotations may have, what is left beside the placement and annotations of the user's own.
MAX_SETTINGS = 200_000
_DNS_LABEL = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


def name_fits_kuberay(case: Case) -> Iterator[Finding]:
    name = case.job.metadata.name
    if len(name) > MAX_NAME:
        yield finding(
            "NameTooLong",
            "metadata.name",
            f"The name {name} has {len(name)} characters; KubeRay keeps 50 of a pod's name, and with the attempt's number and "
            f"the pool's name {MAX_NAME} are left for it: shorten it by {len(name) - MAX_NAME}.",
        )
    if not _DNS_LABEL.match(name):
        yield finding(
            "NameNotALabel",
            "metadata.name",
            f"The name {name} can't name a RayCluster: it must start with a letter and hold only a-z, 0-9 and -.",
        )


def checkpoints_are_shared(case: Case) -> Iterator[Finding]:
    storage = case.spec.storage
    if storage.checkpoints is None or storage.checkpoints.claim_name is not None:
        return
    path = normpath(storage.checkpoints.path)
    holders = [v for v in storage.volumes if f"{path}/".startswith(f"{normpath(v.path).rstrip('/')}/")]
    pods = 1 + sum(p.nodes for p in case.plan.pools)
    if not holders:
        yield finding(
            "CheckpointsNotShared",
            "storage.checkpoints",
            f"Checkpoints go to {path}, which is a folder of its own in each of the {pods} pods, and a checkpoint is written by "
            "all of them: name a ReadWriteMany claim with storage.checkpoints.claimName, or put the path on one of "
            "storage.volumes.",
        )
    elif all(v.read_only for v in holders):
        yield finding(
            "CheckpointsReadOnly",
            "storage.checkpoints",
            f"Checkpoints go to {path}, on the claim {holders[0].claim_name}, which is mounted read-only: set readOnly: false.",
        )


def mounts_are_distinct(case: Case) -> Iterator[Finding]:
    storage = case.spec.storage
    paths = [normpath(v.path) for v in storage.volumes]
    if storage.checkpoints is not None and storage.checkpoints.claim_name is not None:
        paths.append(normpath(storage.checkpoints.path))
    for path, count in Counter(paths).items():
        if count > 1:
            yield finding(
                "MountedTwice",
                "storage.volumes",
                f"{count} claims are mounted at {path}; a path can hold one: give each its own.",
            )


def names_are_unique(case: Case) -> Iterator[Finding]:
    for name, count in Counter(e.name for e in case.spec.env).items():
        if count > 1:
            yield finding("DuplicateEnv", "env", f"The variable {name} is set {count} times in env: keep one of them.")


def env_has_one_source(case: Case) -> Iterator[Finding]:
    for variable in case.spec.env:
        source = variable.value_from
        if variable.value is not None and source is not None:
            yield finding(
                "EnvValue", "env", f"The variable {variable.name} has both a value and valueFrom: keep one of them."
            )
        elif source is not None and (source.secret_key_ref is None) == (source.config_map_key_ref is None):
            yield finding(
                "EnvValue",
                "env",
                f"The variable {variable.name} must take its value from exactly one of secretKeyRef and configMapKeyRef.",
            )


def queue_is_named(case: Case) -> Iterator[Finding]:
    scheduling = case.spec.scheduling
    if scheduling.gang_scheduler == "KAI" and scheduling.queue_name is None:
        yield finding(
            "QueueMissing",
            "scheduling.queueName",
            "KAI leaves pods without a queue pending for ever, and scheduling.queueName is not set: name one of its queues.",
        )


def balance_can_move(case: Case) -> Iterator[Finding]:
    if case.spec.balance.mode != "Apply":
        return
    if case.spec.placement.total is None:
        yield finding(
            "BalanceApply",
            "balance.mode",
            "balance.mode is Apply, and placement.pools says who gets what. On Kubernetes GPUs change sides only where all are "
            "alike: give placement.total (actorFraction says where to begin), or use Recommend.",
        )
    if case.spec.storage.checkpoints is None:
        yield finding(
            "BalanceApply",
            "storage.checkpoints",
            "balance.mode is Apply, and storage.checkpoints is not set: a run moves from one split to another behind a "
            "checkpoint. Set it, or use Recommend.",
        )


def plan_fits_an_annotation(case: Case) -> Iterator[Finding]:
    """The trainer's plan is an annotation of the head pod, and the API server takes 256 KiB of them."""
    size = len(json.dumps(case.settings).encode())
    if size > MAX_SETTINGS:
        yield finding(
            "SettingsTooLarge",
            "training",
            f"The settings for verl are {size:,} bytes as JSON, and a pod can carry {MAX_SETTINGS:,} of them: take out what is "
            "large, such as a long list in training.config or data.train, and put it into a file of the image or of a volume.",
        )


CHECKS: tuple[Check, ...] = (
    name_fits_kuberay,
    checkpoints_are_shared,
    mounts_are_distinct,
    names_are_unique,
    env_has_one_source,
    queue_is_named,
    balance_can_move,
    plan_fits_an_annotation,
)
