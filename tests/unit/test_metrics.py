"""What is counted, and that each name is documented."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

from prometheus_client import generate_latest

from snapshots import NOW, Story, cluster, ips, pods, submitted
from split_ppo.api.generate import ROOT
from split_ppo_operator.metrics import Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_time_to_running_and_attempts_that_ended() -> None:
    metrics, story = Metrics(), Story({"runPolicy": {"backoffLimit": 1}})

    def look(*, after: float = 1.0, **seen: Any) -> None:
        before = story.snapshot
        verdict = story.look(after=after, **seen)
        metrics.on_change(replace(before, created=NOW - timedelta(seconds=30)), verdict, story.now)

    everyone = pods()
    look()
    look(clusters=(cluster(),))
    look(pods=everyone, ray_nodes=ips(*everyone), submission=submitted(None))
    look(submission=submitted("RUNNING"))
    assert value(metrics, "split_ppo_time_to_running_seconds_count") == 1
    assert value(metrics, "split_ppo_time_to_running_seconds_sum") == 34
    look(submission=submitted("FAILED", exit_code=1, message="no"))
    assert value(metrics, "split_ppo_attempts_total", outcome="Failed", reason="TrainingFailed") == 1
    look(after=60)
    look(ray_nodes=ips(*everyone), submission=submitted(None))
    look(submission=submitted("RUNNING"))
    assert value(metrics, "split_ppo_time_to_running_seconds_count") == 1, "only the first attempt counts"
    look(submission=submitted("SUCCEEDED"))
    assert value(metrics, "split_ppo_attempts_total", outcome="Succeeded", reason="TrainingSucceeded") == 1


def test_every_phase_has_a_number() -> None:
    metrics = Metrics()
    metrics.count_jobs(["Running", "Running", "Failed"])
    assert value(metrics, "split_ppo_jobs", phase="Running") == 2
    assert value(metrics, "split_ppo_jobs", phase="Suspended") == 0
    assert 'phase="Suspended"' in generate_latest(metrics.registry).decode()


def test_the_page_lists_every_metric_and_no_other() -> None:
    page = (ROOT / "docs/operator.md").read_text()
    documented = set(re.findall(r"^\| `(split_ppo_\w+)", page, flags=re.MULTILINE))
    metrics = Metrics()
    served = {m.name + ("_total" if m.type == "counter" else "") for m in metrics.registry.collect()}
    assert documented == {name for name in served if name.startswith("split_ppo_")}
