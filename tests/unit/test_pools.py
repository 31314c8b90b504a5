from typing import Any

from snapshots import NOW, Story, cluster, pods, see
from split_ppo_operator.plan import plan
from split_ppo_operator.pools import readiness
from split_ppo_operator.status import build_status


def test_a_group_that_somebody_changed_is_told() -> None:
    story = Story()
    story.look()
    changed = cluster(replicas=(("actor", 0), ("critic", 1)))
    verdict = story.look(clusters=(changed,), pods=pods(actor=False))
    assert verdict.reason == "ClusterChanged"
    assert "its group actor has 0 replicas instead of 1" in verdict.message
    gone = cluster(replicas=(("critic", 1),))
    assert "its group actor was removed" in story.look(clusters=(gone,), pods=pods(actor=False)).message


def test_pools_that_are_all_ready_are_ready_whatever_is_asked_for() -> None:
    story = Story()
    story.look()
    story.look(clusters=(cluster(replicas=(("actor", 2), ("critic", 1))),), pods=pods())
    assert readiness(story.snapshot).complete


def test_a_job_that_needs_no_pods_waits_for_none() -> None:
    def said(spec: dict[str, Any]) -> tuple[str, str]:
        snapshot = see(spec)
        written = build_status(snapshot, plan(snapshot, NOW), NOW)
        [condition] = [c for c in written["conditions"] if c["type"] == "PoolsReady"]
        return condition["status"], condition["reason"]

    assert said({}) == ("False", "WaitingForPods")
    assert said({"suspend": True}) == ("False", "NotNeeded")
    assert said({"training": {"batchSize": 1025}}) == ("False", "NotNeeded")
