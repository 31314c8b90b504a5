"""The operator in its own pods, from its own image, with its own rights: a job's whole life under a release.

One release lives through it all once (`story`); the tests read what was seen.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from builders import job_document
from cluster.charts import CHART, Release, older_chart
from cluster.operators import JOBS, RAY_CLUSTERS, once_allowed, phase, small_job
from cluster.rights import Right, granted, owned_account, refused, used
from testbed import artefacts, images
from testbed.api import Api, Manifest
from testbed.cluster import Cluster, Namespace
from testbed.local import LocalCluster

UNTIL_TOLD = 'while not pathlib.Path("/tmp/go").exists(): time.sleep(0.2)'
# Asked for by an admission plugin and not by a request; test_rbac.py shows that it is needed.
BY_ADMISSION = {Right("splitppo.io", "splitppojobs/finalizers", "update")}


@dataclass
class Story:
    release: Release
    jobs: Namespace
    tested: str = ""
    first_pods: list[Manifest] = field(default_factory=list)
    second_pods: list[Manifest] = field(default_factory=list)
    before: list[Manifest] = field(default_factory=list)
    after: list[Manifest] = field(default_factory=list)
    ended: Manifest = field(default_factory=dict)
    roles: list[Manifest] = field(default_factory=list)
    audit: list[Manifest] = field(default_factory=list)


@pytest.fixture(scope="module")
def story(
    real_cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    if not isinstance(real_cluster, LocalCluster):
        pytest.skip("the operator's image is built here and can only be put into nodes of our own")
    image = images.operator()
    real_cluster.load_image(image.archive)
    repository, _, tag = image.tag.rpartition(":")
    values = {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}}
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    system = real_cluster.make_namespace(f"system-{secrets.token_hex(2)}", labels=restricted)
    jobs = real_cluster.make_namespace(f"jobs-{secrets.token_hex(2)}", labels=restricted)
    told = Story(Release(real_cluster, system.name), jobs)
    try:
        try:
            live(told, real_cluster, values, older_chart(tmp_path_factory.mktemp("older")))
        except Exception:
            for kept in (system, jobs):
                artefacts.collect(
                    kept, Path(request.config.getoption("--artefacts")) / "test_chart_pods.py" / kept.name
                )
            raise
        yield told
    finally:
        jobs.remove()
        told.release.helm("uninstall", told.release.name, "--ignore-not-found", "--wait")
        system.remove()


def live(told: Story, cluster: LocalCluster, values: Manifest, older: Path) -> None:
    release, jobs = told.release, told.jobs
    release.install(older, values, "--take-ownership", "--wait", "--timeout=2m")
    told.first_pods = release.pods()
    [early] = jobs.apply(job_document({"suspend": True}, name="early"))
    # Of a kind of owner that is new, admission hears late. The operator would be refused, which is what is looked for; whoever
    # may do everything is not.
    operator = Api(cluster.kubeconfig, user=release.user)
    once_allowed(lambda: operator.apply(owned_account(early), namespace=jobs.name))
    jobs.apply(*small_job(jobs, UNTIL_TOLD))
    provoke(jobs, cluster)
    told.tested = release.helm("test", release.name, "--timeout=1m")
    running(jobs)
    told.before = training(jobs)

    release.upgrade(CHART, values, "--wait", "--timeout=2m")
    system = Namespace(cluster, release.namespace)
    told.second_pods = system.wait_all("pods", lambda pods: new_only(pods, told.first_pods), within=60, what="new pods")
    held(jobs)
    resumed(jobs)
    told.after = training(jobs)
    [head] = jobs.find("pods", labels="ray.io/node-type=head,splitppo.io/job=small")
    jobs.exec(head["metadata"]["name"], "touch", "/tmp/go")
    told.ended = jobs.wait(
        JOBS, "small", lambda j: phase(j) in ("Succeeded", "Failed"), within=120, what="the job's end"
    )
    jobs.wait_gone(JOBS, "brief", within=120)
    jobs.wait(JOBS, "headed", lambda j: phase(j) == "Failed", within=60, what="the end of a job that keeps its head")
    without_pools = {
        "labels": "splitppo.io/job=headed,ray.io/node-type=worker",
        "within": 60,
        "what": "its pools to go",
    }
    jobs.wait_all("pods", lambda pods: not pods, **without_pools)
    told.roles = release.roles()
    told.audit = list(cluster.audit(release.user))


def provoke(jobs: Namespace, cluster: LocalCluster) -> None:
    """What makes the operator ask for more than a job that goes well does."""
    kuberay = cluster.component("kuberay-operator")
    kuberay.pause()
    try:  # a RayCluster of which nobody has said anything: is there an Event?
        total = {"total": {"gpusPerNode": 16}}
        jobs.apply(job_document({"placement": total}, name="greedy"))
        jobs.wait(JOBS, "greedy", lambda j: j.get("status", {}).get("reason") == "WaitingForPods", within=60)
    finally:
        kuberay.resume()
    policy = {"startupDeadlineSeconds": 1, "backoffLimit": 0, "ttlSecondsAfterFinished": 1}
    wrong = {"image": "localhost/no-such-image:1", "imagePullPolicy": "Never", "runPolicy": policy}
    jobs.apply(*small_job(jobs, "", name="brief", spec=wrong))
    imageless = {"image": "localhost/no-such-image:1", "imagePullPolicy": "Never"}
    jobs.apply(*small_job(jobs, "", name="imageless", spec=imageless))
    headed = {**imageless, "runPolicy": {"startupDeadlineSeconds": 10, "backoffLimit": 0, "cleanup": "Workers"}}
    jobs.apply(*small_job(jobs, "", name="headed", spec=headed))


def resumed(jobs: Namespace) -> None:
    """The trainer's account and rights are there already when the second attempt begins."""
    jobs.api.patch(JOBS, "imageless", {"spec": {"suspend": True}}, namespace=jobs.name)
    jobs.wait(JOBS, "imageless", lambda j: j["status"].get("reason") == "Suspended", within=120, what="its suspension")
    jobs.api.patch(JOBS, "imageless", {"spec": {"suspend": False}}, namespace=jobs.name)
    jobs.wait(JOBS, "imageless", lambda j: j["status"].get("attempt") == 2, within=60, what="its second attempt")


def held(jobs: Namespace) -> None:
    """Somebody suspends the RayCluster, as Kueue does: the operator asks Kueue why, whether it is there or not."""
    jobs.api.patch(RAY_CLUSTERS, "greedy-1", {"spec": {"suspend": True}}, namespace=jobs.name)
    jobs.wait(JOBS, "greedy", lambda j: j["status"].get("reason") == "Queued", within=60, what="the wait in a queue")


def running(jobs: Namespace) -> None:
    def runs(job: Manifest) -> bool:
        assert phase(job) != "Failed", job["status"].get("message")
        return phase(job) == "Running"

    jobs.wait(JOBS, "small", runs, within=240, what="the training to run")


def training(jobs: Namespace) -> list[Manifest]:
    """All that a training is made of."""
    mine = {"labels": "splitppo.io/job=small"}
    return [*jobs.find(RAY_CLUSTERS, **mine), *jobs.find("pods", **mine)]


def new_only(pods: list[Manifest], old: list[Manifest]) -> bool:
    return len(pods) == 2 and not {p["metadata"]["uid"] for p in pods} & {p["metadata"]["uid"] for p in old}


def fingerprint(objects: list[Manifest]) -> dict[str, object]:
    """What would show that somebody touched them: identity, spec, restarts."""
    return {
        f"{o.get('kind', '')} {o['metadata']['name']}": (
            o["metadata"]["uid"],
            o["metadata"].get("generation"),
            [c["restartCount"] for c in o.get("status", {}).get("containerStatuses", [])],
        )
        for o in objects
    }


def test_two_replicas_run_as_restricted_pods(story: Story) -> None:
    assert len(story.first_pods) == 2
    for pod in story.first_pods:
        [status] = pod["status"]["containerStatuses"]
        assert status["ready"]
        assert status["restartCount"] == 0
    assert len({pod["spec"]["nodeName"] for pod in story.first_pods}) == 2, "spread over the nodes"


def test_helm_test_plans_and_asks_the_api_server(story: Story) -> None:
    assert "Phase:          Succeeded" in story.tested


def test_an_upgrade_touches_no_training(story: Story) -> None:
    versions = [
        {p["metadata"]["labels"]["helm.sh/chart"] for p in pods} for pods in (story.first_pods, story.second_pods)
    ]
    assert versions == [{"split-ppo-0.0.9"}, {"split-ppo-0.1.0"}]
    assert len(story.before) == 4, "RayCluster, head, two workers"
    assert fingerprint(story.after) == fingerprint(story.before)
    assert phase(story.ended) == "Succeeded", story.ended["status"].get("message")
    assert [a["outcome"] for a in story.ended["status"]["attempts"]] == ["Succeeded"]


def test_rights_are_exact(story: Story) -> None:
    """Over a job's whole life, and those of jobs that fail in every way: nothing is refused, and nothing was granted in vain."""
    may, did = granted(story.roles), used(story.audit)
    assert {str(right) for right in refused(story.audit)} == set()
    assert {str(right) for right in did - may} == set(), "used but not granted"
    assert {str(right) for right in may - did - BY_ADMISSION} == set(), "granted but never used"


def test_uninstall_leaves_jobs_and_nothing_else(story: Story) -> None:
    """Last: the jobs that are there stay as they are, and can be deleted without an operator."""
    release, jobs = story.release, story.jobs
    there = {j["metadata"]["uid"] for j in jobs.find(JOBS)}
    assert there
    release.helm("uninstall", release.name, "--wait", "--timeout=1m")
    Namespace(release.cluster, release.namespace).wait_all("pods", lambda pods: not pods, within=60)
    assert release.left() == []
    assert {j["metadata"]["uid"] for j in jobs.find(JOBS)} == there
    release.cluster.kubectl("delete", "sppo", "--all", "-n", jobs.name, "--timeout=60s")
    jobs.wait_all("pods", lambda pods: not pods, within=120, what="the jobs' pods to go with them")
