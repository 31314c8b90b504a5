"""The same YAML on this machine and on Kubernetes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cluster.operators import JOBS
from e2e.training import STEPS, TOLERANCE, Training


def test_same_curve(train: Callable[..., Training], tmp_path: Path) -> None:
    """`split-ppo run` of the same YAML gives the same reward curve as Kubernetes"""
    training = train("both")
    training.wait_phase("Succeeded")
    applied = training.namespace.get(JOBS, "both")
    spec = applied["spec"]
    for only_there in ("image", "imagePullPolicy", "env", "storage"):
        spec.pop(only_there, None)
    job = {"apiVersion": applied["apiVersion"], "kind": applied["kind"], "metadata": {"name": "both"}, "spec": spec}
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump(job))
    output = tmp_path / "here"
    command = [sys.executable, "-m", "split_ppo", "run", str(file), "--output", str(output)]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    lines = [json.loads(line) for line in (output / "events.jsonl").read_text().splitlines()]
    here = {line["step"]: line["reward"] for line in lines if line["event"] == "step"}
    assert list(here) == list(range(1, STEPS + 1))
    assert here == pytest.approx(training.curve(), abs=TOLERANCE)
