"""The GitOps examples: what they give the chart is what the chart takes, and the health check says what the status means."""

from typing import Any, get_args

import pytest
import yaml

from chart.rendering import only, render
from split_ppo import __version__
from split_ppo.api.generate import ROOT
from split_ppo.api.status import Phase

GITOPS = ROOT / "examples" / "gitops"
HEALTH = "resource.customizations.health.splitppo.io_SplitPPOJob"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((GITOPS / name).read_text()))


def test_the_chart_takes_the_values_of_both() -> None:
    [application] = documents("argocd/operator.yaml")
    source = application["spec"]["source"]
    [release] = [d for d in documents("flux/operator.yaml") if d["kind"] == "HelmRelease"]
    for values in (source["helm"]["valuesObject"], release["spec"]["values"]):
        image = only(render(values), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image == f"registry.example/split-ppo/operator:{__version__}"
    assert (ROOT / source["path"] / "Chart.yaml").exists()
    assert release["spec"]["chart"]["spec"]["chart"] == source["path"]
    [repository] = [d for d in documents("flux/operator.yaml") if d["kind"] == "GitRepository"]
    assert repository["spec"]["ref"]["tag"] == source["targetRevision"] == f"v{__version__}"


def health(job: dict[str, Any]) -> tuple[str, str]:
    """Run as Argo CD does: a Lua function of the object."""
    lupa = pytest.importorskip("lupa")
    lua = lupa.LuaRuntime()
    [config] = documents("argocd/health-check.yaml")
    check = lua.eval(f"function(obj) {config['data'][HEALTH]} end")
    found = check(lua.table_from(job, recursive=True))
    return str(found.status), str(found.message)


EXPECTED = {"Running": "Healthy", "Succeeded": "Healthy", "Suspended": "Suspended", "Failed": "Degraded"}


@pytest.mark.parametrize("phase", get_args(Phase))
def test_health_of_every_phase(phase: str) -> None:
    job = {"metadata": {"generation": 2}, "status": {"phase": phase, "message": "so", "observedGeneration": 2}}
    assert health(job) == (EXPECTED.get(phase, "Progressing"), "so")


def test_health_before_the_operator_has_looked() -> None:
    assert health({"metadata": {"generation": 1}})[0] == "Progressing"
    stale = {"phase": "Running", "message": "so", "observedGeneration": 1}
    assert health({"metadata": {"generation": 2}, "status": stale})[0] == "Progressing"


def test_a_refused_job_is_degraded() -> None:
    condition = {"type": "Accepted", "status": "False"}
    status = {"phase": "Pending", "message": "no", "observedGeneration": 1, "conditions": [condition]}
    assert health({"metadata": {"generation": 1}, "status": status}) == ("Degraded", "no")
