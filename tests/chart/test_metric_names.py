"""Dashboard and alerts ask only for what is really exported."""

import json
import re
from importlib import util
from pathlib import Path

import pytest

from chart.rendering import chart_file, only, render
from split_ppo.api.generate import ROOT
from split_ppo_operator.metrics import Metrics

NAME = re.compile(r"\b(?:ray|split_ppo|process)_[a-z_]+")
TRAINER = ROOT / "trainer_image" / "split_ppo_trainer" / "progress.py"


def dashboard_expressions() -> list[str]:
    board = json.loads(chart_file("files/dashboard.json").read_text())
    asked = [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]
    return asked + [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]


def alert_expressions() -> list[str]:
    rules = only(render({"metrics": {"rules": {"enabled": True}}}), "PrometheusRule")
    return [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]


def asked_for(expressions: list[str]) -> set[str]:
    """Metric names, without what stands in quotes or is a label."""
    found: set[str] = set()
    for expression in expressions:
        bare = re.sub(r'"[^"]*"|\bby \([^)]*\)|\bon \([^)]*\)', "", expression)
        found |= set(NAME.findall(bare))
    return found


def of_the_operator() -> set[str]:
    return {sample.name for family in Metrics().registry.collect() for sample in family.samples} | {
        # Counters with labels have no sample before their first increment.
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics().registry.collect()
    }


def of_the_trainer() -> set[str]:
    """As Ray exports them, with its prefix."""
    return {f"ray_split_ppo_{name}" for name in re.findall(r'gauge\("(\w+)"', TRAINER.read_text())}


@pytest.mark.parametrize("expressions", [dashboard_expressions, alert_expressions])
def test_every_name_of_ours_exists(expressions: object) -> None:
    assert callable(expressions)
    ours = {n for n in asked_for(expressions()) if "split_ppo_" in n}
    assert ours, "no metric is asked for: this test would prove nothing"
    assert ours - of_the_operator() - of_the_trainer() == set()


def test_every_name_of_rays_exists() -> None:
    spec = util.find_spec("ray")
    if spec is None or spec.origin is None:
        pytest.skip("Ray is not installed here (make install-trainer)")
    source = (Path(spec.origin).parent / "dashboard/modules/reporter/reporter_agent.py").read_text()
    rays = {n.removeprefix("ray_") for n in asked_for(dashboard_expressions()) if n.startswith("ray_node_")}
    assert rays
    assert {name for name in rays if f'"{name}": Gauge(' not in source} == set()
