"""Who runs where, asked from Ray's control plane: node, pool and custom resource of every actor of this run."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import ray
from ray._private.state import state as ray_state

from split_ppo.placement.plan import PoolPlan
from split_ppo_trainer.usage import engine_answers
from split_ppo_trainer.watchdog import Roll


class WorkerPlace(TypedDict):
    """Where one worker is."""

    role: str
    rank: int
    pool: str | None
    node_ip: str
    node_id: str
    pid: int
    resource: str | None


def nodes_of(resource: str) -> list[str]:
    """Ids of the live nodes that carry the custom resource, in a fixed order."""
    return sorted(n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get(resource, 0) > 0)


def actors_of_this_job() -> dict[str, Mapping[str, Any]]:
    """Live actors of the current Ray job by id."""
    job = ray.get_runtime_context().get_job_id()
    table = ray_state.actor_table(None)
    return {actor_id: actor for actor_id, actor in table.items() if actor["State"] == "ALIVE" and actor["JobID"] == job}


def present() -> Roll:
    """What is alive now."""
    nodes = {n["NodeID"]: n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"]}
    return Roll(nodes, {actor_id: actor["ActorClassName"] for actor_id, actor in actors_of_this_job().items()})


def places(groups: Mapping[str, Sequence[Any]], pools: Sequence[PoolPlan]) -> list[WorkerPlace]:
    """Places of actor handles, grouped by role, in rank order."""
    nodes = {n["NodeID"]: n for n in ray.nodes()}
    alive = actors_of_this_job()
    found = []
    for role, handles in groups.items():
        for rank, handle in enumerate(handles):
            actor = alive[handle._actor_id.hex()]
            found.append(_place(role, rank, nodes[actor["Address"]["NodeID"]], pools, pid=actor["Pid"]))
    return found


def engine_places(servers: Sequence[Any], places: Sequence[WorkerPlace]) -> list[WorkerPlace]:
    """Places of the processes that compute for vLLM's servers, whose places are given: Ray does not know them."""
    answers = ray.get([server.__ray_call__.remote(engine_answers, "process_id") for server in servers])
    return [
        WorkerPlace(**{**place, "role": "RolloutEngine", "pid": pid})
        for place, pids in zip(places, answers, strict=True)
        for pid in pids
    ]


def helper_places(known: Sequence[Any], pools: Sequence[PoolPlan]) -> list[WorkerPlace]:
    """Places of this job's other actors (agent loops, reward loops, queue, routers), by class name."""
    nodes = {n["NodeID"]: n for n in ray.nodes()}
    ids = {handle._actor_id.hex() for handle in known}
    found, ranks = [], dict[str, int]()
    for actor_id, actor in sorted(actors_of_this_job().items()):
        if actor_id in ids:
            continue
        name = actor["ActorClassName"]
        ranks[name] = ranks.get(name, -1) + 1
        found.append(_place(name, ranks[name], nodes[actor["Address"]["NodeID"]], pools, pid=actor["Pid"]))
    return found


def _place(role: str, rank: int, node: Mapping[str, Any], pools: Sequence[PoolPlan], *, pid: int = 0) -> WorkerPlace:
    pool = next((p for p in pools if node["Resources"].get(p.resource, 0) > 0), None)
    return WorkerPlace(
        role=role,
        rank=rank,
        pool=None if pool is None else pool.name,
        node_ip=node["NodeManagerAddress"],
        node_id=node["NodeID"],
        pid=pid,
        resource=None if pool is None else pool.resource,
    )


def nodes_of_the_pools(pools: Sequence[PoolPlan]) -> Roll:
    """The pools' nodes, before any worker is on them."""
    nodes = {}
    for node in ray.nodes():
        place = _place("", 0, node, pools)
        if node["Alive"] and place["pool"]:
            nodes[node["NodeID"]] = _node_words(place)
    return Roll(nodes, {})


def _node_words(place: WorkerPlace) -> str:
    where = f"pool {place['pool']}" if place["pool"] else "the head"
    return f"node {place['node_ip']} of {where} ({place['node_id'][:8]})"


def roll_of_the_run(pools: Sequence[PoolPlan]) -> Roll:
    """Everything the run cannot do without, as it stands now: its actors and the nodes they are on."""
    by_id = {n["NodeID"]: n for n in ray.nodes()}
    actors, nodes = {}, {}
    for actor_id, actor in actors_of_this_job().items():
        node_id = actor["Address"]["NodeID"]
        place = _place(actor["ActorClassName"], 0, by_id[node_id], pools)
        where = f"pool {place['pool']}" if place["pool"] else "the head"
        actors[actor_id] = f"{actor['ActorClassName']} on {place['node_ip']} ({where})"
        nodes[node_id] = _node_words(place)
    return Roll(nodes, actors)
