"""What is wrong is said within a minute, in `kubectl get sppo` and in describe, and lets go of what it held."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Site
from e2e.training import Training


def table_and_story(training: Training) -> tuple[str, str]:
    where = ("-n", training.namespace.name)
    kubectl = training.namespace.cluster.kubectl
    return kubectl("get", "sppo", training.name, *where), kubectl("describe", "sppo", training.name, *where)


def test_wrong_image(train: Callable[..., Training]) -> None:
    """A wrong image is said within a minute, and trains when it is corrected"""
    training = train("typo", {"image": "localhost/split-ppo/trianer:1", "imagePullPolicy": "Never"})
    status = training.wait_reason("ImagePull")
    table, story = table_and_story(training)
    assert "ImagePull" in table
    assert "localhost/split-ppo/trianer:1" in story
    assert "localhost/split-ppo/trianer:1" in status["message"]
    training.patch({"suspend": True})
    training.wait_phase("Suspended")
    training.wait_gone()
    training.patch({"suspend": False, "image": training.namespace.cluster.ray().image})
    training.wait_phase("Running")
    training.delete()
    training.wait_gone()


def test_too_many_gpus(train: Callable[..., Training]) -> None:
    """More GPUs than there are: which, how many were asked for and how many are free"""
    training = train("greedy", gpus(per_pool=3))
    # The scheduler's first word may be about something else, such as a claim that is not bound yet.
    status = training.wait_reason("Unschedulable", saying="nvidia.com/gpu")
    table, story = table_and_story(training)
    assert "Unschedulable" in table
    assert status["message"][:40] in story
    training.delete()
    training.wait_gone()


def test_reward_that_raises(train: Callable[..., Training]) -> None:
    """A reward function that raises ends the job within a minute, with its own words"""
    broken = "def compute_score(*args, **kwargs):\n    raise ValueError('no score for you')\n"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "broken"}, "data": {"reward.py": broken}}
    reward = {"function": {"path": None, "configMap": "broken"}}
    training = train("unfair", {"training": {"reward": reward}, "runPolicy": {"backoffLimit": 0}}, config)
    status = training.wait_failed()
    table, story = table_and_story(training)
    assert "BadInput" in table
    assert "no score for you" in status["message"]
    assert "no score for you" in story
    training.wait_gone()


@pytest.fixture
def little_room(site: Site, checkpoints: Path) -> Iterator[None]:
    """The checkpoints' folder is a disk on which the toy fits and a checkpoint does not, on every node."""
    for node in site.cluster.nodes.values():
        node.box.shell(f"mount -t tmpfs -o size=8m,mode=777 tmpfs {checkpoints}")
    yield
    for node in site.cluster.nodes.values():
        node.box.shell(f"umount --lazy {checkpoints}")


def test_full_volume(train: Callable[..., Training], little_room: None) -> None:
    """A volume on which no checkpoint fits ends the job within a minute, with a sentence that says so"""
    one_node = {"placement": {"total": {"nodes": 1, "gpusPerNode": 2}, "layout": "WithinNodes"}}
    training = train("full", {**one_node, "runPolicy": {"backoffLimit": 0}})
    status = training.wait_failed()
    table, story = table_and_story(training)
    assert "DiskFull" in table
    assert "does not fit" in status["message"], status["message"]
    assert "does not fit" in story
    training.wait_gone()


def gpus(*, per_pool: int) -> dict[str, Any]:
    """Slots that also hold GPUs of the cluster, so that they are counted like GPUs."""
    resources = {kind: {"nvidia.com/gpu": str(per_pool)} for kind in ("limits", "requests")}
    template = {"spec": {"containers": [{"name": "ray", "resources": resources}]}}
    return {"placement": {"pools": {p: {"gpusPerNode": 1, "podTemplate": template} for p in ("actor", "critic")}}}
