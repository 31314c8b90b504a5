"""Carrying out a plan, action by action; each may be repeated. Nothing is decided here."""

import asyncio
from typing import Any

from split_ppo_operator.actions import Action, Apply, DeleteCluster, DeleteJob, ShrinkCluster, Stop, Submit
from split_ppo_operator.cluster import JOBS, RAY_CLUSTERS, Cluster
from split_ppo_operator.ray_api import RayApi, RayNotAnswering

Object = dict[str, Any]


async def act(cluster: Cluster, namespace: str, name: str, actions: tuple[Action, ...]) -> None:
    """All of them in order; the first that can't be done raises ApiError or RayNotAnswering."""
    for action in actions:
        match action:
            case Apply(objects):
                await _apply(cluster, objects)
            case DeleteCluster(cluster_name, uid):
                await cluster.delete(RAY_CLUSTERS, cluster_name, namespace=namespace, uid=uid)
            case ShrinkCluster(manifest):
                await cluster.apply(manifest)
            case Submit(cluster_name, sid, entrypoint, metadata):
                await RayApi(cluster, namespace, cluster_name).submit(sid, entrypoint, metadata)
            case Stop(cluster_name, sid):
                await _stop(RayApi(cluster, namespace, cluster_name), sid)
            case DeleteJob(uid):
                await cluster.delete(JOBS, name, namespace=namespace, uid=uid)


async def _apply(cluster: Cluster, objects: tuple[Object, ...]) -> None:
    """The RayCluster at once, the account of its pods on its way beside it; what the trainer may do is needed only when it runs.

    Should the account be late or refused, KubeRay is refused the pods, and tries again.
    """

    async def make(kind: str) -> None:
        for manifest in objects:
            if manifest["kind"] == kind:
                # Kueue and others own parts of a RayCluster that is there already: it is made once and left alone.
                await (cluster.create_once if kind == "RayCluster" else cluster.create_or_apply)(manifest)

    account, ray_cluster = (asyncio.ensure_future(make(kind)) for kind in ("ServiceAccount", "RayCluster"))
    try:
        await account
    finally:
        await ray_cluster
    await make("Role")
    await make("RoleBinding")


async def _stop(ray: RayApi, sid: str) -> None:
    """Politely; what follows (deleting the RayCluster, or a new submission) does not depend on it."""
    try:
        await ray.stop(sid)
    except RayNotAnswering:
        return
