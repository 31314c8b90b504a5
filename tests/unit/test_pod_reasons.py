"""Pods as the kubelet and the scheduler leave them, and the words made of them."""

from typing import Any

import pytest

from split_ppo_operator.capacity import FreeCount
from split_ppo_operator.pod_reasons import lacking, unschedulable, view_pod, worst

GPU_MESSAGE = (
    "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient nvidia.com/gpu. "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)


def pod(status: dict[str, Any], *, deleting: bool = False, node: str | None = "n1", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "uid": "u", "labels": {"ray.io/group": "actor", **labels}}
    if deleting:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    container = {"name": "ray", "image": "img:1", "resources": {"limits": {"memory": "4Gi"}}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}, "status": status}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}, **more}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
CASES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    (
        "image, seen in the init container first",
        {
            "initContainerStatuses": [waiting("ImagePullBackOff", 'Back-off pulling image "img:1"', image="img:1")],
            "containerStatuses": [waiting("PodInitializing")],
        },
        "ImagePull",
        ["img:1", "Back-off pulling"],
    ),
    ("image that may not be pulled", {"containerStatuses": [waiting("ErrImageNeverPull")]}, "ImagePull", ["img:1"]),
    (
        "missing secret",
        {"containerStatuses": [waiting("CreateContainerConfigError", 'secret "hf" not found')]},
        "ConfigError",
        ['secret "hf" not found'],
    ),
    (
        "crash loop",
        {
            "containerStatuses": [
                waiting(
                    "CrashLoopBackOff", restartCount=4, lastState={"terminated": {"exitCode": 3, "reason": "Error"}}
                )
            ]
        },
        "CrashLoop",
        ["4 times", "exit code 3"],
    ),
    (
        "out of memory",
        {
            "containerStatuses": [
                waiting(
                    "CrashLoopBackOff",
                    restartCount=1,
                    lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                )
            ]
        },
        "OutOfMemory",
        ["memory limit of 4Gi", "raise it"],
    ),
    (
        "turned away after the node's power loss",
        {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu",
            "containerStatuses": [{"state": {"terminated": {"exitCode": 137}}}],
        },
        "RefusedByNode",
        ["turned away by node n1", "being replaced", "no healthy devices present"],
    ),
    (
        "evicted",
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
        "Evicted",
        ["evicted from node n1", "low on resource: memory"],
    ),
    (
        "ended",
        {"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]},
        "ContainerFailed",
        ["exit code 1"],
    ),
    (
        "unschedulable",
        {
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": GPU_MESSAGE}
            ]
        },
        "Unschedulable",
        ["2 Insufficient nvidia.com/gpu."],
    ),
    ("starting", {"phase": "Pending"}, "Starting", ["is being started"]),
    (
        "not ready",
        {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
        "NotReady",
        ["not ready yet"],
    ),
]


@pytest.mark.parametrize(("status", "reason", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_says_why(status: dict[str, Any], reason: str, words: list[str]) -> None:
    view = view_pod(pod(status))
    assert (view.ready, view.reason) == (False, reason)
    for word in words:
        assert word in (view.message or "")
    assert "preemption" not in (view.message or "")


def test_a_ready_pod_has_nothing_to_say() -> None:
    view = view_pod(pod(READY))
    assert (view.ready, view.reason, view.message, view.pool) == (True, None, None, "actor")


def test_a_pod_on_a_lost_node_is_not_ready_whatever_it_says() -> None:
    view = view_pod(pod(READY), lost_nodes=frozenset({"n1"}))
    assert (view.ready, view.reason, view.stuck) == (False, "NodeLost", True)


def test_a_pod_that_is_going_does_not_count() -> None:
    view = view_pod(pod(READY, deleting=True))
    assert (view.ready, view.deleting, view.reason) == (False, True, "Terminating")


def test_the_head_is_told_from_the_pools() -> None:
    assert view_pod(pod(READY, **{"ray.io/node-type": "head", "ray.io/group": "headgroup"})).pool == "head"


def test_the_worst_pod_speaks() -> None:
    views = [view_pod(pod(c[1])) for c in CASES]
    speaker = worst(views)
    assert speaker is not None
    assert speaker.reason == "ImagePull"
    assert worst([view_pod(pod(READY))]) is None


def test_what_the_scheduler_found_too_little_of() -> None:
    unschedulable = next(c[1] for c in CASES if c[2] == "Unschedulable")
    assert lacking(pod(unschedulable)) == ["nvidia.com/gpu"]


def test_how_much_is_free() -> None:
    def node(name: str, gpus: int) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)} if gpus else {}}}

    def user(name: str, gpus: int, phase: str = "Running") -> dict[str, Any]:
        requests = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
        return {"spec": {"nodeName": name, "containers": [requests]}, "status": {"phase": phase}}

    nodes = [node("a", 8), node("b", 8), node("c", 0)]
    pods = [user("a", 6), user("b", 1), user("b", 4, "Succeeded")]

    def words(resource: str) -> str:
        count = FreeCount(resource)
        for piece in (nodes[:1], nodes[1:]):
            count.add_nodes(piece)
        for piece in (pods[:2], pods[2:]):
            count.add_pods(piece)
        return count.words()

    assert words("nvidia.com/gpu") == "Of nvidia.com/gpu, 9 are free on 2 nodes, at most 7 on one."
    assert words("amd.com/gpu") == "No node has any amd.com/gpu."


def test_what_the_scheduler_says_of_claims_and_preemption_is_left_out() -> None:
    said = (
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes are"
    )
    assert unschedulable(said) == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
