"""The SplitPPOJob on a real API server: it installs plainly, refuses with sentences, fills in the types' defaults."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client, config

from builders import job_document, pools
from cluster.operators import install_crd
from split_ppo.api.generate import ROOT
from split_ppo.api.job import parse_job
from split_ppo.jobfile import load_jobs
from split_ppo.placement.checks import check_job
from split_ppo_operator import cluster as operators
from testbed.api import ApiError
from testbed.cluster import Cluster, Namespace

JOBS = "splitppojobs.splitppo.io"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
TOKEN = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.fixture(scope="module")
def crd(cluster: Cluster) -> None:
    """Plain `kubectl apply`, as a person would; it fails on a CRD that is too large."""
    install_crd(cluster)


@pytest.fixture(scope="module")
def shared(cluster: Cluster, crd: None) -> Iterator[Namespace]:
    made = cluster.make_namespace(f"resource-{secrets.token_hex(2)}")
    yield made
    made.remove()


@pytest.fixture
def jobs(shared: Namespace) -> Iterator[Namespace]:
    """A namespace without jobs; nothing runs here, so taking them away again is enough."""
    yield shared
    for job in shared.find(JOBS):
        shared.delete(JOBS, job["metadata"]["name"])


def create(jobs: Namespace, spec: dict[str, Any] | None = None, *, name: str = "job") -> dict[str, Any]:
    return jobs.cluster.api.create(job_document(spec, name=name), namespace=jobs.name)


def test_the_schema_has_no_complaints(cluster: Cluster, crd: None) -> None:
    made = cluster.api.get("customresourcedefinitions.apiextensions.k8s.io", "splitppojobs.splitppo.io")
    conditions = {c["type"]: c for c in made["status"]["conditions"]}
    assert conditions["Established"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_is_accepted(jobs: Namespace, example: Path) -> None:
    jobs.cluster.kubectl("apply", "-n", jobs.name, "-f", str(example))
    [item, *_] = load_jobs(example.read_text(), str(example)).jobs
    stored = jobs.cluster.api.get(JOBS, item.job.metadata.name, namespace=jobs.name)
    assert parse_job(stored).spec == item.job.spec, "the API server fills in what the types fill in"
    assert check_job(parse_job(stored)).findings == ()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("pools and total", pools(1, 1, total={"gpusPerNode": 2}), "give either pools or total"),
    ("neither", {"placement": {"total": None}}, "give either pools or total"),
    ("no critic pool", {"placement": {"total": None, "pools": {"actor": {"gpusPerNode": 1}}}}, "Split needs both"),
    ("colocated with two", pools(1, 1, mode="Colocated"), "Colocated puts every role on one pool"),
    ("fraction of nothing", pools(1, 1, actorFraction="1/2"), "actorFraction says how total is cut"),
    ("undeclared pool", pools(1, 1, roles={"rewardModel": "reward"}), "the pool reward, which is not declared"),
    (
        "colocated role elsewhere",
        {"placement": {"mode": "Colocated", "roles": {"critic": "critic"}}},
        "Colocated has the one pool actor",
    ),
    (
        "resource ends in gpu",
        {
            "placement": {
                "total": None,
                "pools": {"actor": {"gpusPerNode": 1, "resource": "aGpu"}, "critic": {"gpusPerNode": 1}},
            }
        },
        "ends in gpu",
    ),
    ("steps and epochs", {"training": {"steps": 1, "epochs": 1}}, "give steps or epochs"),
    ("reward from nowhere", {"training": {"reward": {"function": {"name": "f"}}}}, "as configMap or as path"),
    ("value and valueFrom", {"env": [{"name": "A", "value": "1", **TOKEN}]}, "give value or valueFrom"),
    ("env from nowhere", {"env": [{"name": "A", "valueFrom": {}}]}, "exactly one of secretKeyRef"),
    ("env twice", {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "Duplicate value"),
]


@pytest.mark.parametrize(("spec", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refuses_with_a_sentence(jobs: Namespace, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError) as refused:
        create(jobs, spec)
    assert refused.value.status == 422
    assert words in str(refused.value)
    findings = check_job(parse_job(job_document(spec))).findings
    assert findings, "what the API server refuses, the CLI must find too"


@pytest.mark.parametrize("name", ["a" * 39, "7b", "a.b"])
def test_refuses_names_that_kuberay_would_cut(jobs: Namespace, name: str) -> None:
    with pytest.raises(ApiError, match="must start with a letter"):
        create(jobs, name=name)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"placement": {"total": {"gpusPerNode": "4"}}}, "must be of type integer"),
        ({"overlap": "Sometimes"}, "Unsupported value"),
        ({"placement": {"total": {"memory": "64 GB"}}}, "should match"),
    ],
)
def test_refuses_wrong_types(jobs: Namespace, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError, match=words):
        create(jobs, spec)


def test_a_typo_is_named_by_kubectl(jobs: Namespace) -> None:
    text = json.dumps(job_document({"placment": {}}))
    with pytest.raises(RuntimeError, match="unknown field"):
        jobs.cluster.kubectl("apply", "-n", jobs.name, "-f", "-", stdin=text)


CHANGES: list[tuple[str, dict[str, Any], bool]] = [
    ("placement", {"placement": {"total": {"gpusPerNode": 6}}}, False),
    ("model", {"training": {"model": {"actor": "other"}}}, False),
    ("image", {"image": "other"}, False),
    ("pod template", {"placement": {"total": {"podTemplate": {"spec": {"hostNetwork": True}}}}}, False),
    ("backoff", {"runPolicy": {"backoffLimit": 9}}, True),
    ("placement while suspending", {"suspend": True, "placement": {"total": {"gpusPerNode": 6}}}, True),
]


@pytest.mark.parametrize(("change", "allowed"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_what_may_change_while_it_runs(jobs: Namespace, change: dict[str, Any], allowed: bool) -> None:
    create(jobs)
    api = jobs.cluster.api
    api.patch(JOBS, "job", {"status": {"phase": "Running"}}, namespace=jobs.name, subresource="status")
    if allowed:
        api.patch(JOBS, "job", {"spec": change}, namespace=jobs.name)
        return
    with pytest.raises(ApiError, match="can't change while the job runs"):
        api.patch(JOBS, "job", {"spec": change}, namespace=jobs.name)
    api.patch(JOBS, "job", {"spec": {"suspend": True}}, namespace=jobs.name)
    api.patch(JOBS, "job", {"spec": change}, namespace=jobs.name)
    api.patch(JOBS, "job", {"spec": {"suspend": False}}, namespace=jobs.name)


def test_a_job_that_never_started_may_be_corrected(jobs: Namespace) -> None:
    create(jobs, {"placement": {"total": {"gpusPerNode": 7}}})
    api = jobs.cluster.api
    api.patch(JOBS, "job", {"status": {"phase": "Pending"}}, namespace=jobs.name, subresource="status")
    api.patch(JOBS, "job", {"spec": {"placement": {"total": {"gpusPerNode": 8}}}}, namespace=jobs.name)


def test_the_table_a_user_watches(jobs: Namespace) -> None:
    create(jobs)
    status = {
        "phase": "Running",
        "poolSummary": "actor 1/1, critic 0/1",
        "attempt": 2,
        "training": {"step": 3, "totalSteps": 10, "progress": "3/10", "reward": 0.25},
    }
    jobs.cluster.api.patch(JOBS, "job", {"status": status}, namespace=jobs.name, subresource="status")
    head, row = jobs.cluster.kubectl("get", "sppo", "-n", jobs.name).splitlines()
    assert head.split() == ["NAME", "PHASE", "POOLS", "STEP", "REWARD", "ATTEMPT", "REASON", "AGE"]
    assert " ".join(row.split()).startswith("job Running actor 1/1, critic 0/1 3/10 0.25 2 ")
    assert "job" in jobs.cluster.kubectl("get", "all", "-n", jobs.name)
    assert "job" in jobs.cluster.kubectl("get", "ray", "-n", jobs.name)


def test_kubectl_explains_every_field(cluster: Cluster, crd: None) -> None:
    assert "Number of nodes, and so of pods" in cluster.kubectl("explain", "sppo.spec.placement.pools.actor.nodes")


def test_more_jobs_than_one_page_holds(jobs: Namespace) -> None:
    names = {f"job-{number}" for number in range(101)}
    for name in names:
        create(jobs, name=name)

    async def pages() -> list[list[str]]:
        configuration = client.Configuration()
        await config.load_kube_config(str(jobs.cluster.kubeconfig), client_configuration=configuration)
        there = operators.Cluster(configuration)
        try:
            listed = there.pages(operators.JOBS, namespace=jobs.name)
            return [[job["metadata"]["name"] for job in page] async for page in listed]
        finally:
            await there.close()

    first, second = asyncio.run(pages())
    assert (len(first), len(second)) == (100, 1)
    assert {*first, *second} == names
