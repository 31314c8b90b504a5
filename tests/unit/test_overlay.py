from typing import Any

import pytest

from builders import make_job
from split_ppo.placement.checks import check_job
from split_ppo_operator.desired import desired_objects
from split_ppo_operator.desired.overlay import overlay


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"args": ["x"]}, {"args": ["y"]}, {"args": ["y"]}),
        (
            {"containers": [{"name": "ray", "image": "i"}]},
            {"containers": [{"name": "ray", "tty": True}, {"name": "side"}]},
            {"containers": [{"name": "ray", "image": "i", "tty": True}, {"name": "side"}]},
        ),
        (
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
            {"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
        ),
        (
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "a"}, {"key": "b"}]},
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "w", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/b"}]},
        ),
    ],
)
def test_lays_over(base: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]) -> None:
    before = repr(base)
    assert overlay(base, over) == expected
    assert repr(base) == before


def test_a_pod_template_reaches_its_pool_and_no_other() -> None:
    template = {
        "spec": {"containers": [{"name": "ray", "resources": {"limits": {"rdma/hca": "1"}}}], "hostNetwork": True}
    }
    placement = {
        "total": None,
        "pools": {"actor": {"gpusPerNode": 1, "podTemplate": template}, "critic": {"gpusPerNode": 1}},
    }
    job = make_job({"placement": placement})
    cluster = desired_objects(job, check_job(job), attempt=1)[-1]
    actor, critic = (group["template"]["spec"] for group in cluster["spec"]["workerGroupSpecs"])
    assert actor["containers"][0]["resources"]["limits"] == {"cpu": "5", "nvidia.com/gpu": "1", "rdma/hca": "1"}
    assert actor["hostNetwork"] is True
    assert "hostNetwork" not in critic


def test_a_pod_template_can_not_take_away_the_plan_nor_the_labels_pods_are_found_by() -> None:
    template = {"metadata": {"labels": None, "annotations": None}}
    job = make_job(
        {"placement": {"head": {"podTemplate": template}, "total": {"gpusPerNode": 2, "podTemplate": template}}}
    )
    plain = make_job({"placement": {"total": {"gpusPerNode": 2}}})
    asked, without = (desired_objects(j, check_job(j), attempt=1)[-1]["spec"] for j in (job, plain))
    for path in (lambda s: s["headGroupSpec"], lambda s: s["workerGroupSpecs"][0]):
        assert path(asked)["template"]["metadata"] == path(without)["template"]["metadata"]


def test_a_pod_template_adds_labels_and_annotations() -> None:
    template = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}
    job = make_job({"placement": {"head": {"podTemplate": template}}})
    metadata = desired_objects(job, check_job(job), attempt=1)[-1]["spec"]["headGroupSpec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"]["note"] == "b"


@pytest.mark.parametrize("wrong", [{"metadata": "x"}, {"metadata": {"labels": "x"}}])
def test_what_is_no_mapping_is_left_for_the_api_server_to_refuse(wrong: dict[str, Any]) -> None:
    job = make_job({"placement": {"head": {"podTemplate": wrong}}})
    template = desired_objects(job, check_job(job), attempt=1)[-1]["spec"]["headGroupSpec"]["template"]
    assert overlay(template, wrong) == template
