"""What a podTemplate may not give to somebody who may not make pods."""

from typing import Any

import pytest

from builders import make_job, pools
from split_ppo.api.generate import ROOT
from split_ppo.api.job import SplitPPOJob
from split_ppo.jobfile import load_jobs
from split_ppo.placement.checks import check_job
from split_ppo_operator.desired.reach import REACHES, beyond

SIDECAR = {
    "name": "sidecar",
    "image": "x",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


def with_template(spec: Any, *, head: bool) -> SplitPPOJob:
    """A job whose head, or whose actor pool, has a podTemplate with this pod spec."""
    placement = pools(1, 1)["placement"]
    template = {"podTemplate": {"spec": spec}}
    if head:
        placement["head"] = template
    else:
        placement["pools"]["actor"] |= template
    return make_job({"placement": placement}, uid="11111111-2222")


def reached(spec: dict[str, Any], *, head: bool = False, allowed: frozenset[str] = frozenset()) -> set[str]:
    """The names of what a podTemplate with this pod spec reaches, from the findings' own words."""
    job = with_template(spec, head=head)
    findings = beyond(job, check_job(job), allowed=allowed)
    assert all(f.reason == "PodTemplateNotAllowed" for f in findings)
    where = "spec.placement.head" if head else "spec.placement.pools.actor"
    assert {f.field for f in findings} <= {f"{where}.podTemplate"}
    return {reach for reach, words in REACHES.items() for f in findings if words in f.message}


def ray(**changes: Any) -> dict[str, Any]:
    return {"containers": [{"name": "ray", **changes}]}


CASES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("a folder of the node", {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {"hostPath"}),
    ("a share mounted by the node", {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}, {"hostPath"}),
    ("the node's network", {"hostNetwork": True}, {"hostNetwork"}),
    ("a port of the node", ray(ports=[{"containerPort": 1, "hostPort": 1}]), {"hostNetwork"}),
    ("the node's processes", {"hostPID": True}, {"hostNamespaces"}),
    ("the node's shared memory", {"hostIPC": True}, {"hostNamespaces"}),
    (
        "privileged",
        ray(securityContext={"privileged": True, "allowPrivilegeEscalation": None}),
        {"privileged", "privilegeEscalation"},
    ),
    ("escalation", ray(securityContext={"allowPrivilegeEscalation": True}), {"privilegeEscalation"}),
    ("a capability", ray(securityContext={"capabilities": {"add": ["IPC_LOCK"]}}), {"capabilities"}),
    ("capabilities kept", ray(securityContext={"capabilities": {"drop": []}}), {"capabilities"}),
    ("root", {"securityContext": {"runAsUser": 0}}, {"root"}),
    ("root in the container", ray(securityContext={"runAsNonRoot": False}), {"root"}),
    ("our security context removed", {"securityContext": None}, {"root", "unconfined"}),
    ("the container's removed", ray(securityContext=None), {"privilegeEscalation", "capabilities"}),
    ("no seccomp", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, {"unconfined"}),
    ("an unmasked /proc", ray(securityContext={"procMount": "Unmasked"}), {"unconfined"}),
    ("a sysctl of the node", {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, {"unconfined"}),
    ("somebody's ServiceAccount", {"serviceAccountName": "deployer"}, {"serviceAccount"}),
    ("its older name", {"serviceAccount": "deployer"}, {"serviceAccount"}),
    ("a token for workers", {"automountServiceAccountToken": True}, {"serviceAccount"}),
    (
        "a token by a volume",
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        {"serviceAccount"},
    ),
    ("a sidecar without limits", {"containers": [{"name": "s", "image": "x"}]}, {"privilegeEscalation", "capabilities"}),
    ("an init container", {"initContainers": [{**SIDECAR, "securityContext": {"privileged": True}}]},
        {"privileged", "privilegeEscalation", "capabilities"}),
    ("a good sidecar", {"containers": [SIDECAR]}, set()),
    (
        "volumes of one's own",
        {
            "volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "secret": {"secretName": "s"}},
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
            ]
        },
        set(),
    ),
    ("where and when", {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "schedulerName": "mine"}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "names"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("head", [False, True], ids=["worker", "head"])
def test_what_reaches_beyond_the_pod(spec: dict[str, Any], names: set[str], head: bool) -> None:
    if head and spec == {"automountServiceAccountToken": True}:
        names = set()  # the head has a token of its own, for its job's status
    assert reached(spec, head=head) == names
    assert reached(spec, head=head, allowed=frozenset(names)) == set()
    assert reached(spec, head=head, allowed=frozenset({"all"})) == set()


def test_the_heads_own_account_may_not_be_taken_away() -> None:
    """It would become the namespace's default one, token included."""
    assert reached({"serviceAccountName": None}, head=True) == {"serviceAccount"}


@pytest.mark.parametrize("spec", ["text", {"containers": "text"}, {"volumes": [1, "two"], "securityContext": 3}])
def test_what_is_no_pod_at_all_is_left_to_the_api_server(spec: Any) -> None:
    reached(spec)


def test_every_example_stays_within_itself() -> None:
    for file in sorted((ROOT / "examples").glob("*.yaml")):
        for item in load_jobs(file.read_text(), str(file)).jobs:
            assert beyond(item.job, check_job(item.job), allowed=frozenset()) == ()


def test_a_job_cannot_be_named_after_an_account_that_is_there() -> None:
    from split_ppo_operator.desired.names import trainer_name

    assert trainer_name("deploy", "0a1b2c3d-0000") == "deploy-0a1b2c3d-trainer"
