"""The measured advice in a job's status, on a real API server, with no more rights than the head pod has."""

from pathlib import Path

import yaml

from builders import job_document
from cluster.operators import install_crd
from run_folders import SECONDS, run_plan
from split_ppo_trainer.kubernetes_status import KubernetesStatus
from split_ppo_trainer.progress import StepReport
from split_ppo_trainer.recommendation import Recommender
from testbed.cluster import Namespace

JOBS = "splitppojobs.splitppo.io"
RIGHTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: head}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: head}
rules: [{apiGroups: [splitppo.io], resources: [splitppojobs/status], resourceNames: [advised], verbs: [patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: head}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: head}
subjects: [{kind: ServiceAccount, name: head}]
"""


def test_the_advice_stands_in_the_status_and_leaves_the_rest_alone(namespace: Namespace, tmp_path: Path) -> None:
    cluster = namespace.cluster
    install_crd(cluster)
    namespace.apply(RIGHTS)
    namespace.apply(job_document(name="advised"))
    cluster.api.patch(JOBS, "advised", {"status": {"phase": "Running"}}, namespace=namespace.name, subresource="status")
    config = yaml.safe_load(
        cluster.kubeconfig_for("head", namespace=namespace.name, path=tmp_path / "head.yaml").read_text()
    )
    token = tmp_path / "token"
    token.write_text(config["users"][0]["user"]["token"])
    sink = KubernetesStatus(
        name="advised",
        namespace=namespace.name,
        server=cluster.api.server,
        token_file=token,
        ca_file=cluster.api.authority,
        recommender=Recommender.for_plan(run_plan(actor=2, critic=2, overlap="NextGeneration")),
        min_interval=0,
    )
    timings = {f"timing_s/{name}": took for name, took in SECONDS.items()}
    for step in range(1, 8):
        sink.step(StepReport(step, 20, {**timings, "timing_s/step": 9.0}, None))
    sink.close()
    status = namespace.get(JOBS, "advised")["status"]
    assert (status["phase"], status["training"]["step"]) == ("Running", 7)
    advice = status["recommendation"]
    assert advice["best"] == advice["predictions"][0]["split"] == "Colocated 4"
    assert advice["message"].startswith("actor 2 + critic 2 takes 9.00 s a step; Colocated 4 would take")
    assert {p["split"] for p in advice["predictions"]} == {"Colocated 4", "actor 2 + critic 2"}
