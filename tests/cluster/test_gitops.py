"""What Git says stays what the cluster says: the operator writes the status, and nothing that a sync would see as drift."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import job_document
from cluster.operators import JOBS, Operator, condition_of, install_crd, running_operator
from split_ppo.api.generate import ROOT
from testbed.api import Manifest
from testbed.cluster import Cluster, Namespace, find_kubectl

KUSTOMIZE = ROOT / "examples" / "gitops" / "kustomize"
# As kubectl, and as Argo CD and Flux apply.
WAYS = {
    "client-side": (),
    "server-side": ("--server-side", "--field-manager=argocd-controller"),
}


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    install_crd(cluster)
    with running_operator(cluster, tmp_path_factory.mktemp("operator") / "log", "--resync-seconds=1") as started:
        yield started


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """Fields with defaults, without, and of every shape."""
    spec: dict[str, Any] = {
        "placement": {
            "total": {"gpusPerNode": 4, "nodeSelector": {"gpu": "h100"}, "podTemplate": {"spec": {"hostIPC": False}}}
        },
        "training": {"learningRate": {"actor": 1e-6}, "config": {"trainer": {"project_name": "x"}}},
        "env": [{"name": "A", "value": "1"}],
        "runPolicy": {"startupDeadlineSeconds": 600},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_document(spec, labels={"team": "a"}, annotations={"note": "mine"})))
    return file


def users_part(job: Manifest) -> Manifest:
    """All that a user owns, and what tells whether somebody touched it."""
    kept = ("name", "labels", "annotations", "finalizers", "ownerReferences", "generation")
    return {"spec": job["spec"], "metadata": {k: v for k, v in job["metadata"].items() if k in kept}}


def observed(job: Manifest) -> bool:
    """The operator has made what there is to make: it waits for nodes that this cluster does not have."""
    return job.get("status", {}).get("reason") == "Unschedulable"


def drift(cluster: Cluster, *arguments: str) -> str:
    """What `kubectl diff` prints, which ends with 1 where it prints anything and with more where it could not compare."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        [str(find_kubectl()), "diff", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert bool(done.returncode) == bool(done.stdout)
    return done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_applied_twice_nothing_changes_and_nothing_drifts(
    operator: Operator, namespace: Namespace, document: Path, way: str
) -> None:
    cluster, options = namespace.cluster, ["-n", namespace.name, "-f", str(document), *WAYS[way]]
    made = json.loads(cluster.kubectl("apply", *options, "-o", "json"))
    job = namespace.wait(JOBS, "job", observed, within=60, what="the operator to have done its part")
    assert users_part(job) == users_part(made), "the operator changed what is the user's"
    assert drift(cluster, *options) == ""

    said = cluster.kubectl("apply", *options)
    assert "unchanged" in said or "serverside-applied" in said
    again = namespace.get(JOBS, "job")
    assert users_part(again) == users_part(made)
    assert drift(cluster, *options) == ""


def test_every_field_has_one_owner(operator: Operator, namespace: Namespace, document: Path) -> None:
    """Of the operator's own are fields of the status alone, so neither Argo CD nor Flux ever has a conflict with it."""
    cluster = namespace.cluster
    cluster.kubectl("apply", "-n", namespace.name, "-f", str(document), *WAYS["server-side"])
    namespace.wait(JOBS, "job", observed, within=60, what="the operator to have done its part")
    managed = namespace.get(JOBS, "job")["metadata"]["managedFields"]
    owners = {entry["manager"]: entry for entry in managed}
    assert set(owners) == {"argocd-controller", "split-ppo"}
    assert set(owners["split-ppo"]["fieldsV1"]) == {"f:status"}
    assert owners["split-ppo"]["subresource"] == "status"
    assert "f:status" not in owners["argocd-controller"]["fieldsV1"]


def test_a_change_in_git_arrives_and_one_by_hand_is_seen(
    operator: Operator, namespace: Namespace, document: Path
) -> None:
    cluster, options = namespace.cluster, ["-n", namespace.name, "-f", str(document), *WAYS["server-side"]]
    cluster.kubectl("apply", *options)
    namespace.wait(JOBS, "job", observed, within=60, what="the operator to have done its part")
    namespace.api.patch(JOBS, "job", {"spec": {"runPolicy": {"startupDeadlineSeconds": 60}}}, namespace=namespace.name)
    assert "startupDeadlineSeconds" in drift(cluster, *options, "--force-conflicts")
    job = yaml.safe_load(document.read_text())
    job["spec"]["suspend"] = True
    document.write_text(yaml.safe_dump(job))
    cluster.kubectl("apply", *options, "--force-conflicts")
    suspended = namespace.wait(JOBS, "job", lambda j: j["status"].get("reason") == "Suspended", within=60)
    assert suspended["spec"]["runPolicy"]["startupDeadlineSeconds"] == 600
    assert drift(cluster, *options) == ""


@pytest.mark.parametrize("folder", ["base", "overlays/production"])
def test_kustomize_builds_what_the_operator_accepts(operator: Operator, namespace: Namespace, folder: str) -> None:
    cluster, options = namespace.cluster, ["-n", namespace.name, "-k", str(KUSTOMIZE / folder)]
    cluster.kubectl("apply", *options)
    [job] = namespace.find(JOBS)
    name = job["metadata"]["name"]
    accepted = namespace.wait(JOBS, name, lambda j: bool(condition_of(j, "Accepted")), within=60)
    assert condition_of(accepted, "Accepted")["status"] == "True", condition_of(accepted, "Accepted")["message"]
    reward = job["spec"]["training"]["reward"]["function"]["configMap"]
    assert namespace.get("configmaps", reward)["data"].keys() == {"reward.py"}, "the generated name found its way"
    assert drift(cluster, *options) == ""
