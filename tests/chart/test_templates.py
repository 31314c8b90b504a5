"""What the chart makes of its values."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.rendering import CHART, helm, only, render, render_text
from split_ppo import __version__, versions
from split_ppo.api.generate import ROOT
from split_ppo_operator.settings import CHOICES, Settings, read_settings

GOLDEN = Path(__file__).parent / "golden"
EVERYTHING: dict[str, Any] = {
    "replicas": 3,
    "image": {
        "repository": "registry.example/split-ppo/operator",
        "digest": "sha256:" + "0" * 64,
        "pullPolicy": "Always",
    },
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"annotations": {"example/role": "split-ppo"}},
    "operator": {
        "workers": 16,
        "logLevel": "DEBUG",
        "allowInPodTemplate": ["hostPath", "capabilities"],
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    },
    "runAsUser": None,
    "priorityClassName": "system-cluster-critical",
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example/scrape": "false"},
    "metrics": {
        "port": 9090,
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "apiServerCIDRs": ["10.0.0.1/32"],
    },
}
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": EVERYTHING,
    "namespaces": {"namespaces": ["team-a", "team-b"], "rbac": {"readNodes": False, "aggregate": False}, "replicas": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_as_they_were(case: str) -> None:
    """`UPDATE_GOLDEN=1 make test-chart` writes them anew; read the difference before committing it."""
    text = render_text({**CASES[case], "crds": {"install": False}})
    golden = GOLDEN / f"{case}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert golden.read_text() == text


@pytest.mark.parametrize("case", CASES)
def test_lint(case: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(CASES[case]))
    said = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert said.returncode == 0, said.stdout


def test_the_crd_is_the_generated_one_and_stays() -> None:
    [made] = [o for o in render() if o["kind"] == "CustomResourceDefinition"]
    generated = yaml.safe_load((ROOT / "crds" / "splitppo.io_splitppojobs.yaml").read_text())
    assert made["spec"] == generated["spec"]
    assert made["metadata"]["name"] == generated["metadata"]["name"]
    assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    [loose] = [o for o in render({"crds": {"keep": False}}) if o["kind"] == "CustomResourceDefinition"]
    assert "annotations" not in loose["metadata"]


def test_the_operator_knows_every_flag_it_is_given() -> None:
    container = only(render(EVERYTHING), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    settings = read_settings(container["args"], {})
    assert (settings.workers, settings.log_level, settings.metrics_port) == (16, "DEBUG", 9090)
    assert (settings.lease_namespace, settings.lease_name) == ("system", "split-ppo")
    assert settings.allow_in_pod_template == ("hostPath", "capabilities")
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    assert ports == {"health": settings.health_port, "metrics": settings.metrics_port}
    watched = only(render(CASES["namespaces"]), "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert read_settings(watched, {}).namespaces == ("team-a", "team-b")


def test_every_setting_of_the_operator_can_be_chosen() -> None:
    values = {**EVERYTHING, "namespaces": ["team-a"]}
    args = only(render(values), "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    given = {a.split("=")[0].removeprefix("--").replace("-", "_") for a in args}
    assert given == {f.name for f in fields(Settings)}
    schema = json.loads((CHART / "values.schema.json").read_text())
    allowed = schema["properties"]["operator"]["properties"]["allowInPodTemplate"]["items"]["enum"]
    assert set(allowed) == set(CHOICES["allow_in_pod_template"])


def test_the_lease_that_is_used_is_the_one_that_is_allowed() -> None:
    objects = render(release="other", namespace="elsewhere")
    [role] = [o for o in objects if o["kind"] == "Role" and o["metadata"]["name"].endswith("-lease")]
    container = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    settings = read_settings(container["args"], {})
    assert role["metadata"]["namespace"] == settings.lease_namespace == "elsewhere"
    assert role["rules"][1]["resourceNames"] == [settings.lease_name]


def test_no_rule_has_a_wildcard_and_secrets_are_never_listed() -> None:
    for case in CASES.values():
        for role in (o for o in render(case) if o["kind"] in ("Role", "ClusterRole")):
            for rule in role["rules"]:
                assert "*" not in {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
                if "secrets" in rule["resources"]:
                    assert rule["verbs"] == ["get"]


def test_without_cluster_rights_nothing_is_made_outside_of_namespaces() -> None:
    outside = {
        o["kind"]
        for o in render({**CASES["namespaces"], "crds": {"install": False}})
        if "namespace" not in o["metadata"]
    }
    assert outside == set()


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    assert re.findall(r"--version (\S+)", notes) == [versions.KUBERAY]
    assert f"ARG VERSION={__version__}" in (ROOT / "Dockerfile").read_text()
    whole = yaml.safe_load((ROOT / "charts" / "split-ppo-with-kuberay" / "Chart.yaml").read_text())
    assert {d["name"]: d["version"] for d in whole["dependencies"]} == {
        "split-ppo": __version__,
        "kuberay-operator": versions.KUBERAY,
    }
