"""Why a pod is not ready, in words a user can act on. Pure: a pod in, a reason and a sentence out.

KubeRay says nothing about single pods, so everything is read from them: the init container that waits for the head (a bad image
shows there first), the containers, the scheduler's condition, and the node's.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from split_ppo_operator.snapshot import HEAD, PodView

Object = Mapping[str, Any]
_IMAGE = {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_EVICTED = {"Evicted", "Preempting", "Terminated", "NodeShutdown"}
# Worst first: what needs a person comes before what passes by itself.
SEVERITY = (
    "ImagePull",
    "ConfigError",
    "OutOfMemory",
    "CrashLoop",
    "Evicted",
    "RefusedByNode",
    "NodeLost",
    "Unschedulable",
    "ContainerFailed",
    "Terminating",
    "NotReady",
    "Starting",
)


def view_pod(pod: Object, *, lost_nodes: frozenset[str] = frozenset()) -> PodView:
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    labels = metadata.get("labels", {})
    pool = HEAD if labels.get("ray.io/node-type") == "head" else labels.get("ray.io/group", "")
    deleting = bool(metadata.get("deletionTimestamp"))
    lost = spec.get("nodeName") in lost_nodes or status.get("reason") == "NodeLost"
    ready = _ready(status) and not deleting and not lost
    reason, message = (None, None) if ready else explain(pod, lost=lost)
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        pool=pool,
        ip=status.get("podIP"),
        node=spec.get("nodeName"),
        ready=ready,
        deleting=deleting,
        restarts=sum(c.get("restartCount", 0) for c in status.get("containerStatuses", [])),
        reason=reason,
        message=message,
        stuck=lost,
    )


def explain(pod: Object, *, lost: bool) -> tuple[str, str]:
    """The reason and a sentence for a pod that is not ready."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    if lost:
        return "NodeLost", f"Pod {name}: its node {pod['spec'].get('nodeName')} does not answer any more."
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating", f"Pod {name} is being deleted."
    if status.get("phase") == "Failed" and status.get("reason"):
        return _ended_by_node(name, pod["spec"].get("nodeName"), status)
    for container in _containers(status):
        found = _container(name, pod, container)
        if found:
            return found
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return "Unschedulable", f"Pod {name} finds no node: {unschedulable(scheduled.get('message', ''))}"
    if status.get("phase") in (None, "Pending"):
        return "Starting", f"Pod {name} is being started."
    return "NotReady", f"Pod {name} runs but is not ready yet."


def unschedulable(message: str) -> str:
    """The scheduler's sentence without what helps nobody."""
    first = re.split(r"\s(?:no new claims to deallocate|preemption:)", message, maxsplit=1)[0].strip().rstrip(".")
    return (first or "the scheduler gave no reason") + "."


def lacking(pod: Object) -> list[str]:
    """The resources that the scheduler found too little of."""
    message = _condition(pod.get("status", {}), "PodScheduled").get("message", "")
    return sorted(set(re.findall(r"Insufficient ([A-Za-z0-9./_-]+?)(?=[,.]?(?:\s|$))", message)))


def worst(pods: list[PodView]) -> PodView | None:
    """The pod to speak of."""
    waiting = [p for p in pods if not p.ready and p.reason]
    return min(waiting, key=lambda p: (SEVERITY.index(p.reason) if p.reason in SEVERITY else 99, p.name), default=None)


def _ended_by_node(name: str, node: str | None, status: Object) -> tuple[str, str]:
    """The kubelet ended the pod, or did not let it start; such a pod never comes back, and KubeRay replaces it."""
    why = f"{status['reason']}: {_short(status)}"
    if status["reason"] in _EVICTED:
        return "Evicted", f"Pod {name} was evicted from node {node} and is being replaced. {why}"
    # After a power loss the kubelet is up before the GPUs are, and turns away the pods that had some.
    return "RefusedByNode", f"Pod {name} was turned away by node {node} and is being replaced. {why}"


def _container(name: str, pod: Object, container: Object) -> tuple[str, str] | None:
    state, last = container.get("state", {}), container.get("lastState", {}).get("terminated", {})
    waiting, terminated = state.get("waiting", {}), state.get("terminated", {})
    reason = waiting.get("reason", "")
    if reason in _IMAGE:
        return "ImagePull", f"Pod {name} can't get its image {container.get('image') or _image(pod)}: {_short(waiting)}"
    if reason in _CONFIG:
        return "ConfigError", f"Pod {name} can't be started: {_short(waiting)}"
    ended = terminated or last
    if ended.get("reason") == "OOMKilled":
        return (
            "OutOfMemory",
            f"Pod {name} was killed because it used more than its memory limit{_limit(pod)}: raise it.",
        )
    if reason == "CrashLoopBackOff":
        code, count = last.get("exitCode", "?"), container.get("restartCount", 0)
        return "CrashLoop", f"Pod {name} has ended {count} times, last with exit code {code}: see its log."
    if terminated and terminated.get("exitCode"):
        return "ContainerFailed", f"Pod {name} ended with exit code {terminated['exitCode']}: see its log."
    return None


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])


def _ready(status: Object) -> bool:
    return _condition(status, "Ready").get("status") == "True"


def _condition(status: Object, kind: str) -> Object:
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def _image(pod: Object) -> str:
    containers = pod.get("spec", {}).get("containers", [{}])
    return str(containers[0].get("image", ""))


def _limit(pod: Object) -> str:
    containers = pod.get("spec", {}).get("containers", [{}])
    limit = containers[0].get("resources", {}).get("limits", {}).get("memory")
    return f" of {limit}" if limit else ""


def _short(state: Object) -> str:
    text = " ".join(str(state.get("message") or state.get("reason", "")).split())
    return (text[:300] + "…") if len(text) > 300 else text
