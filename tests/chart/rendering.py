"""The chart as helm renders it, without a cluster."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from split_ppo.api.generate import ROOT
from testbed.cluster import find_helm

CHART = ROOT / "charts" / "split-ppo"
Object = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(find_helm()), *arguments], capture_output=True, text=True)


def render_text(values: Object | None = None, *, release: str = "split-ppo", namespace: str = "system") -> str:
    """What helm would apply, hooks included; raises with helm's words where it refuses."""
    done = subprocess.run(
        [str(find_helm()), "template", release, str(CHART), "--namespace", namespace, "--values", "-"],
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return done.stdout


def render(values: Object | None = None, **options: str) -> list[Object]:
    return [o for o in yaml.safe_load_all(render_text(values, **options)) if o]


def only(objects: list[Object], kind: str) -> Object:
    found = [o for o in objects if o["kind"] == kind and "helm.sh/hook" not in o["metadata"].get("annotations", {})]
    assert len(found) == 1, f"{len(found)} objects of kind {kind}"
    return found[0]


def defaults() -> Object:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


def chart_file(name: str) -> Path:
    return CHART / name
