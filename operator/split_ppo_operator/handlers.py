"""kopf as informer: whatever happens to a job, its RayClusters or its pods puts the job into the queue, and nothing else.

Only `on.event` is used. It writes nothing on the user's objects: no finalizer, no annotation, no progress in the status.
"""

from collections.abc import Callable, Mapping
from typing import Any

import kopf

from split_ppo.api import GROUP, PLURAL, VERSION
from split_ppo_operator.desired.names import JOB_LABEL
from split_ppo_operator.reconcile import Key


def make_registry(enqueue: Callable[[Key], None]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def job(namespace: str | None, name: str | None, **_: Any) -> None:
        if namespace and name:
            enqueue(Key(namespace, name))

    async def child(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        owner = labels.get(JOB_LABEL)
        if namespace and owner:
            enqueue(Key(namespace, owner))

    kopf.on.event("ray.io", "v1", "rayclusters", registry=registry)(child)
    kopf.on.event("", "v1", "pods", registry=registry)(child)
    return registry


def make_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # No watching of CRDs and namespaces: rights we need not have.
    settings.scanning.disabled = True
    settings.watching.label_selectors["ray.io/rayclusters"] = JOB_LABEL
    settings.watching.label_selectors["pods"] = JOB_LABEL
    settings.watching.server_timeout = 300
    return settings
