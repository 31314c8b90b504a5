"""`kubectl apply -f examples/quickstart-cpu.yaml`: it trains, says how far it is, and everybody sits where the plan drew."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.training import STEPS, TOLERANCE, Training
from testbed.cluster import Namespace

LAYOUTS: dict[str, dict[str, Any]] = {
    "WithinNodes": {"placement": {"total": {"nodes": 1, "gpusPerNode": 2}, "layout": "WithinNodes"}},
    "AcrossNodes": {"placement": {"total": {"nodes": 2, "gpusPerNode": 1}, "layout": "AcrossNodes"}},
}


@pytest.fixture(scope="session")
def curves() -> dict[str, dict[int, float]]:
    """Of the layouts that were trained, for those after them to be compared with."""
    return {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_quickstart(
    train: Callable[..., Training], ml: Namespace, layout: str, curves: dict[str, dict[int, float]]
) -> None:
    """The quickstart trains to Succeeded, actor and critic in pods of their own where the plan drew them"""
    training = train("quickstart", LAYOUTS[layout])
    progress: list[str] = []

    def started(status: dict[str, Any]) -> bool:
        said = status.get("training", {}).get("progress")
        progress.extend([said] if said and said not in progress else [])
        return bool(said)

    training.wait(started, what="progress in the status")
    pods = {pool: training.pod_of(pool) for pool in ("actor", "critic")}
    nodes = {pool: pod["spec"]["nodeName"] for pool, pod in pods.items()}
    assert (nodes["actor"] == nodes["critic"]) is (layout == "WithinNodes"), nodes

    status = training.wait(lambda s: not started(s) or s["phase"] == "Succeeded", what="the end")
    assert len(progress) > 1, "progress in the status while it ran"
    assert status["training"]["progress"] == f"{STEPS}/{STEPS}"
    assert status["training"]["checkpoint"].endswith(f"global_step_{STEPS}")
    [checkpoint] = training.folder.glob(f"quickstart-*/**/global_step_{STEPS}")
    assert {"actor", "critic"} <= {part.name for part in checkpoint.iterdir()}

    placed = next(event for event in training.events() if event["event"] == "placement")
    addresses = {pool: pod["status"]["podIP"] for pool, pod in pods.items()}
    for worker in placed["workers"]:
        assert worker["node_ip"] == addresses[worker["pool"]], (
            f"Ray has {worker} elsewhere than Kubernetes: {addresses}"
        )
    assert {worker["pool"] for worker in placed["workers"]} == {"actor", "critic"}

    curve = training.curve()
    assert list(curve) == list(range(1, STEPS + 1))
    assert curve[STEPS] > curve[1]
    for other in curves.values():
        assert curve == pytest.approx(other, abs=TOLERANCE)
    curves[layout] = curve
    training.wait_gone()
