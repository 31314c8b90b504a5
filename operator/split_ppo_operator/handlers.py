"""kopf as informer: whatever happens to a job, its RayClusters or its pods puts the job into the queue, and nothing else.

Only `on.event` is used. It writes nothing on the user's objects: no finalizer, no annotation, no progress in the status.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import kopf

from split_ppo.api import GROUP, PLURAL, VERSION
from split_ppo_operator.census import Census
from split_ppo_operator.cluster import JOBS, PODS, RAY_CLUSTERS, ApiError, Cluster, Resource, in_a_pod
from split_ppo_operator.desired.names import JOB_LABEL
from split_ppo_operator.newborn import Newborn
from split_ppo_operator.reconcile import Key

Object = dict[str, Any]
log = logging.getLogger("split_ppo.operator")
ASK_AGAIN_SECONDS = 10.0


async def watch(
    cluster: Cluster,
    namespaces: Sequence[str],
    enqueue: Callable[[Key], None],
    census: Census,
    newborn: Newborn,
    on_ready: Callable[[], None],
) -> None:
    """Until cancelled. `on_ready` is called once jobs can be seen.

    kopf learns only at its start what the API server offers: it is started when there are SplitPPOJobs to see. For KubeRay
    that is installed later a second one is started, as a kopf that is ended loses what it was just asking for.
    """
    loop = asyncio.get_running_loop()

    def on_job(key: Key, kind: str | None, job: Object) -> None:
        (census.forget if kind == "DELETED" else census.see)(job)
        newborn.see(key, kind, job)
        enqueue(key)

    def from_kopf(hear: Callable[..., object]) -> Callable[..., None]:
        """From its thread into our loop, while there is one."""

        def tell(*told: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(hear, *told)

        return tell

    await _until_seen(cluster, namespaces, JOBS, "SplitPPOJobs can't be seen (kubectl apply -f crds/ installs them)")
    on_ready()
    registry = make_registry()
    watch_jobs(registry, from_kopf(on_job))
    watch_children(registry, PODS, from_kopf(enqueue))
    if await _hindrance(cluster, namespaces, RAY_CLUSTERS) is None:
        watch_children(registry, RAY_CLUSTERS, from_kopf(enqueue))
        await _run_kopf(registry, namespaces)
        return

    async def watch_ray_clusters() -> None:
        await _until_seen(cluster, namespaces, RAY_CLUSTERS, "RayClusters can't be seen (is KubeRay installed?)")
        late = make_registry()
        watch_children(late, RAY_CLUSTERS, from_kopf(enqueue))
        await _run_kopf(late, namespaces)

    async with asyncio.TaskGroup() as both:
        both.create_task(_run_kopf(registry, namespaces))
        both.create_task(watch_ray_clusters())


async def _run_kopf(registry: kopf.OperatorRegistry, namespaces: Sequence[str]) -> None:
    """In a thread and a loop of its own: in ours it would take the signals, and at its end cancel every task it sees.

    It only watches, so it ends with the process, whatever it is asking for then.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def report(error: BaseException) -> None:
        if not ended.done():
            ended.set_exception(error)

    def run() -> None:
        operator = kopf.operator(
            registry=registry,
            settings=make_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=list(namespaces),
        )
        try:
            asyncio.run(operator)
            error: BaseException = RuntimeError("kopf ended by itself")
        except BaseException as problem:
            error = problem
        loop.call_soon_threadsafe(report, error)

    threading.Thread(target=run, name="kopf", daemon=True).start()
    await ended


def make_registry() -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        # The cluster that we act on, decided alike: kopf alone would go by a token's file, wherever that came from.
        login = kopf.login_with_service_account if in_a_pod() else kopf.login_with_kubeconfig
        return login(**arguments)

    return registry


def watch_jobs(registry: kopf.OperatorRegistry, tell: Callable[[Key, str | None, Object], object]) -> None:
    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def job(namespace: str | None, name: str | None, type: str | None, body: kopf.Body, **_: Any) -> None:
        if namespace and name:
            tell(Key(namespace, name), type, dict(body))


def watch_children(registry: kopf.OperatorRegistry, resource: Resource, tell: Callable[[Key], object]) -> None:
    """What belongs to a job says so in its labels."""

    async def child(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        owner = labels.get(JOB_LABEL)
        if namespace and owner:
            tell(Key(namespace, owner))

    kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)(child)


def make_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # No watching of CRDs and namespaces: rights we need not have.
    settings.scanning.disabled = True
    settings.watching.label_selectors["ray.io/rayclusters"] = JOB_LABEL
    settings.watching.label_selectors["pods"] = JOB_LABEL
    settings.watching.server_timeout = 300
    # Until then kopf keeps the object that an event told of, and a task for it: in a storm, thousands of them.
    settings.queueing.idle_timeout = 0.5
    settings.networking.error_backoffs = Backoffs()
    settings.networking.request_timeout, settings.networking.connect_timeout = 60, 10
    settings.networking.trust_env = True
    return settings


class Backoffs:
    """Seconds between tries of a request of kopf's, without end: left alone it gives up after a minute, and we with it."""

    def __iter__(self) -> Iterator[float]:
        yield from (1.0, 2.0, 4.0, 8.0)
        while True:
            yield random.uniform(10.0, 20.0)


async def _until_seen(cluster: Cluster, namespaces: Sequence[str], resource: Resource, words: str) -> None:
    while (problem := await _hindrance(cluster, namespaces, resource)) is not None:
        log.error("%s: %s; asking again", words, problem)
        await asyncio.sleep(ASK_AGAIN_SECONDS)


async def _hindrance(cluster: Cluster, namespaces: Sequence[str], resource: Resource) -> ApiError | None:
    """What keeps us from seeing this kind of object."""
    try:
        for namespace in namespaces or (None,):
            await cluster.find(resource, namespace=namespace, limit="1")
    except ApiError as error:
        return error
    return None
