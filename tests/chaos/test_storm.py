"""Generated jobs, created, changed and deleted in random order before an API server that misbehaves; then calm.

In the calm every job must stand where an undisturbed operator would have brought it, nothing may be left of deleted ones, and
nothing may be written any more.
"""

import random
import time
from typing import Any

import pytest

from chaos.conftest import Replicas
from chaos.proxy import Call, Fault, FaultProxy
from chaos.specs import change, generated_job, schema_of_spec
from cluster.operators import JOBS, RAY_CLUSTERS, condition_of, phase
from split_ppo.api.job import parse_job
from split_ppo.placement.checks import check_job
from testbed.api import ApiError, Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

# Refused for good by the API server: tried again once a minute, whatever else happens.
TRIED_AGAIN = ("ActionFailed", "Forbidden")


class Weather:
    """Faults by chance: a share of all requests is delayed, refused, or loses its reply."""

    def __init__(self, rng: random.Random, share: float) -> None:
        self._rng, self._share = rng, share

    def rule(self, call: Call) -> Fault:
        if self._rng.random() > self._share:
            return Fault()
        if call.watch:
            return self._rng.choice([Fault(status=410), Fault(status=500), Fault(drop=True)])
        faults = [
            Fault(drop=True),
            Fault(lose_reply=True),
            Fault(status=429, retry_after=1),
            Fault(status=500),
            Fault(status=503),
            Fault(delay=self._rng.uniform(0.1, 2.0)),
        ]
        return self._rng.choice([*faults, Fault(status=409)] if call.writes else faults)


class Users:
    """People who create, change, suspend and delete jobs, without waiting for anything."""

    def __init__(self, namespace: Namespace, rng: random.Random) -> None:
        self._namespace, self._rng = namespace, rng
        self.refused = self.accepted = 0

    def act(self, name: str) -> None:
        rng = self._rng
        try:
            found = self._namespace.find(JOBS, fields=f"metadata.name={name}")
            if not found:
                document = generated_job(rng, name)
                # Deadlines and lifetimes would make the end depend on the hour.
                document["spec"].pop("runPolicy", None)
                self._namespace.api.create(document, namespace=self._namespace.name)
            elif rng.random() < 0.3:
                self._namespace.delete(JOBS, name)
            else:
                self._change(found[0])
            self.accepted += 1
        except ApiError as error:
            if error.status not in (400, 404, 409, 422, 429):
                raise
            self.refused += 1

    def _change(self, job: Manifest) -> None:
        spec = job["spec"]
        if self._rng.random() < 0.4:
            spec["suspend"] = not spec.get("suspend", False)
        else:
            change(self._rng, spec, schema_of_spec(), hostile=0.1)
            spec.pop("runPolicy", None)
        where = self._namespace.api.resource(JOBS).path(self._namespace.name, job["metadata"]["name"])
        self._namespace.api.request("PUT", where, job)


def unsettled(job: Manifest, clusters: list[Manifest]) -> str | None:
    """What is still to come; None for a job that stands where it should."""
    status: dict[str, Any] = job.get("status", {})
    if status.get("observedGeneration") != job["metadata"]["generation"]:
        return "the last change was not looked at"
    mine = [c["metadata"]["name"] for c in clusters if "deletionTimestamp" not in c["metadata"]]
    plan = check_job(parse_job(job))
    if plan.findings:
        right = condition_of(job, "Accepted").get("status") == "False" and not mine
        return None if right else f"it should be refused and have nothing, but has {mine}"
    if job["spec"].get("suspend"):
        return None if status.get("reason") == "Suspended" and not mine else f"it should be suspended, but has {mine}"
    if status.get("reason") in TRIED_AGAIN:
        return None if "invalid" in status["message"].lower() else f"it is held up: {status['message']}"
    wanted = [status["rayCluster"]["name"]] if status.get("rayCluster") else []
    right = phase(job) in ("Provisioning", "Recovering") and mine == wanted and len(wanted) == 1
    return None if right else f"it is {phase(job)} with {mine} instead of {wanted}"


def wait_settled(namespace: Namespace, within: float) -> list[Manifest]:
    deadline = time.monotonic() + within
    while True:
        jobs, clusters = namespace.find(JOBS), namespace.find(RAY_CLUSTERS)
        by_job: dict[str, list[Manifest]] = {job["metadata"]["uid"]: [] for job in jobs}
        strays = []
        for found in clusters:
            owner = found["metadata"]["ownerReferences"][0]["uid"]
            by_job.get(owner, strays).append(found)
        problems = {job["metadata"]["name"]: unsettled(job, by_job[job["metadata"]["uid"]]) for job in jobs}
        problems |= {c["metadata"]["name"]: "its job is gone" for c in strays}
        problems = {name: problem for name, problem in problems.items() if problem}
        if not problems:
            return jobs
        assert time.monotonic() < deadline, problems
        time.sleep(0.3)  # the state of many objects together: nothing to watch


def wait_for_rest(proxy: FaultProxy, looks: int, *, besides: set[str]) -> None:
    """Until there were so many requests and not one write among them."""
    deadline = time.monotonic() + 60
    written: list[tuple[str, str, int]] = []
    while time.monotonic() < deadline:
        before, calls = len(proxy.written), len(proxy.calls)
        while len(proxy.calls) < calls + looks and time.monotonic() < deadline:
            time.sleep(0.2)  # requests are counted, not announced
        written = [w for w in proxy.written[before:] if not any(f"/{name}" in w[1] for name in besides)]
        if not written and len(proxy.calls) >= calls + looks:
            return
    raise AssertionError(f"the operator does not come to rest: {written}")


def storm(
    namespace: Namespace,
    proxy: FaultProxy,
    replicas: Replicas,
    rng: random.Random,
    *,
    jobs: int,
    actions: int,
    pause: float,
) -> None:
    proxy.rule = Weather(rng, 0.2).rule
    users = Users(namespace, random.Random(rng.random()))
    names = [f"job-{number}" for number in range(jobs)]
    for number in range(actions):
        users.act(names[number] if number < jobs else rng.choice(names))
        time.sleep(
            rng.uniform(0.0, pause)
        )  # people, too, leave the operator some time to be in the middle of something
        if number % 10 == 0:
            proxy.cut_watches()
    proxy.rule = lambda call: Fault()
    left = wait_settled(namespace, within=150)
    print(
        f"{users.accepted} accepted, {users.refused} refused, {len(proxy.calls)} requests, {len(left)} jobs at the end"
    )
    assert replicas.current.running, replicas.said()[-3000:]
    assert "Traceback" not in replicas.said(), replicas.said()[-3000:]

    tried = {j["metadata"]["name"] for j in left if j["status"].get("reason") in TRIED_AGAIN}
    wait_for_rest(proxy, 3 * len(left), besides=tried)
    for name in names:
        namespace.delete(JOBS, name)
    for resource in (RAY_CLUSTERS, "pods", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"):
        namespace.wait_all(resource, lambda found: not found, within=120, what=f"no {resource} to be left")


@pytest.fixture
def busy(proxy: FaultProxy, replicas: Replicas) -> Replicas:
    """An operator that looks at every job every few seconds, so that a rest is seen for what it is."""
    replicas.end()
    replicas.start("--resync-seconds=3")
    return replicas


def test_calm_after_the_storm(namespace: Namespace, proxy: FaultProxy, busy: Replicas, seed: int) -> None:
    storm(namespace, proxy, busy, random.Random(seed), jobs=12, actions=60, pause=0.4)


@pytest.mark.slow
def test_calm_after_a_long_storm(
    local_cluster: LocalCluster, namespace: Namespace, proxy: FaultProxy, busy: Replicas, seed: int
) -> None:
    storm(namespace, proxy, busy, random.Random(seed), jobs=60, actions=2000, pause=0.3)
