"""The chart on a cluster: packaged, installed, upgraded, and what is left of it afterwards."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from split_ppo.api.generate import ROOT
from testbed.api import Manifest
from testbed.cluster import Cluster

CHART = ROOT / "charts" / "split-ppo"
CRD = "splitppojobs.splitppo.io"
# Every kind a release may make, and those that its test makes for a moment.
KINDS = (
    *("deployments.apps", "replicasets.apps", "pods", "services", "serviceaccounts", "configmaps", "secrets"),
    *("poddisruptionbudgets.policy", "networkpolicies.networking.k8s.io", "clusterroles.rbac.authorization.k8s.io"),
    *("clusterrolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io"),
    *("rolebindings.rbac.authorization.k8s.io",),
)


def older_chart(folder: Path, *, version: str = "0.0.9") -> Path:
    """The chart as if it were an earlier one: lower versions, and a CRD that lacks a field of today's."""
    chart = folder / "split-ppo"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": version, "appVersion": version}))
    crd = chart / "templates" / "crd.yaml"
    lines = crd.read_text().splitlines(keepends=True)
    [at] = [n for n, line in enumerate(lines) if line.strip() == "- name: Checkpoint"]
    assert lines[at + 1].strip() == "type: string"
    crd.write_text("".join(lines[:at] + lines[at + 4 :]))
    return chart


def columns(cluster: Cluster) -> set[str]:
    """Names of the CRD's printer columns: how a newer CRD is told from the older one."""
    found = cluster.api.get("customresourcedefinitions.apiextensions.k8s.io", CRD)
    return {c["name"] for c in found["spec"]["versions"][0]["additionalPrinterColumns"]}


@dataclass(frozen=True)
class Release:
    cluster: Cluster
    namespace: str
    name: str = "split-ppo"

    def helm(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        given = ["--values", "-"] if values is not None else []
        where = ["--namespace", self.namespace]
        return self.cluster.helm(*arguments, *where, *given, stdin=json.dumps(values) if given else None)

    def install(self, chart: Path, values: dict[str, Any], *options: str) -> str:
        return self.helm("install", self.name, str(chart), *options, values=values)

    def upgrade(self, chart: Path, values: dict[str, Any], *options: str) -> str:
        return self.helm("upgrade", self.name, str(chart), *options, values=values)

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def pods(self) -> list[Manifest]:
        labels = f"app.kubernetes.io/name=split-ppo,app.kubernetes.io/instance={self.name}"
        return self.cluster.api.find("pods", namespace=self.namespace, labels=labels)

    def roles(self) -> list[Manifest]:
        """The operator's own, as they are on the cluster: not those of people."""
        found = [
            *self.cluster.api.find("clusterroles.rbac.authorization.k8s.io", labels=self._label),
            *self.cluster.api.find("roles.rbac.authorization.k8s.io", labels=self._label),
        ]
        return [r for r in found if not r["metadata"]["name"].endswith((":view", ":edit"))]

    def left(self, kinds: Sequence[str] = KINDS) -> list[str]:
        """What there still is of the release, the CRD apart."""
        found = []
        for kind in kinds:
            for item in self.cluster.api.find(kind, labels=self._label):
                found.append(f"{kind}/{item['metadata']['name']}")
            for item in self.cluster.api.find(kind, labels=f"name={self.name},owner=helm"):
                found.append(f"{kind}/{item['metadata']['name']}")
        return found

    @property
    def _label(self) -> str:
        return f"app.kubernetes.io/instance={self.name}"
