"""`balance.mode: Apply` on Kubernetes: the trainer decides and ends, the next attempt begins on the split it named."""

from typing import Any

import pytest

from snapshots import Story, cluster, ips, pods, submitted
from split_ppo.placement.splits import split_name
from split_ppo.runplan import resolve
from split_ppo_operator.actions import Apply, DeleteCluster
from split_ppo_operator.verdict import Verdict

SPEC: dict[str, Any] = {
    "balance": {"mode": "Apply"},
    "placement": {"total": {"gpusPerNode": 4}},
    "training": {"batchSize": 12, "miniBatchSize": 12, "microBatchSizePerGPU": 1},
    "storage": {"checkpoints": {"claimName": "c"}},
}
ASKED, BETTER = "actor 2 + critic 2", "actor 3 + critic 1"
DECIDED = {"asked": ASKED, "split": BETTER, "tried": {ASKED: 9.0}}
WORDS = f"{ASKED} takes 9.00 s a step; {BETTER} is predicted to take 7.00 s (6.50 to 7.50): moving to it."
END = submitted("FAILED", message=f"log\nMoved: {WORDS}", exit_code=4)


@pytest.fixture
def story() -> Story:
    story = Story(SPEC)
    story.run()
    return story


def now_on(story: Story) -> str:
    return split_name(story.snapshot.plan)


def groups(verdict: Verdict) -> dict[str, int]:
    """GPUs of a pod in each worker group of the RayCluster that is made."""
    [apply] = [action for action in verdict.actions if isinstance(action, Apply)]
    [made] = [o for o in apply.objects if o["kind"] == "RayCluster"]
    return {
        group["groupName"]: int(group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        for group in made["spec"]["workerGroupSpecs"]
    }


def test_a_run_moves_to_a_new_cluster_and_that_is_no_failure(story: Story) -> None:
    story.trainer_says({"balance": DECIDED})
    assert now_on(story) == ASKED, "until the attempt ends its pools are what they were"
    assert story.look(submission=submitted("RUNNING")).phase == "Running"

    moved = story.look(submission=END)
    assert (moved.phase, moved.reason, moved.message, moved.failures) == ("Provisioning", "Moved", WORDS, None)
    assert now_on(story) == BETTER

    anew = story.look()
    assert [type(action) for action in anew.actions] == [DeleteCluster, Apply], "its GPUs go back first"
    assert groups(anew) == {"actor": 3, "critic": 1}
    first, second = story.snapshot.status.attempts or []
    assert (first.outcome, first.split, first.cluster) == ("Moved", ASKED, "job-1")
    assert (second.outcome, second.split, second.cluster) == ("Running", BETTER, "job-2")
    assert story.snapshot.status.failures == 0


def test_the_next_plan_knows_what_was_tried(story: Story) -> None:
    story.trainer_says({"balance": DECIDED})
    plan = resolve(story.snapshot.job, story.snapshot.plan)
    assert (plan.balance.mode, plan.balance.asked, plan.balance.tried) == ("Apply", ASKED, {ASKED: 9.0})
    story.trainer_says({"balance": {**DECIDED, "settled": True}})
    assert resolve(story.snapshot.job, story.snapshot.plan).balance.mode == "Recommend", "it stays there for good"


def test_without_a_decision_it_is_a_failure_like_any_other(story: Story) -> None:
    failed = story.look(submission=END)
    assert (failed.phase, failed.reason, failed.failures) == ("Recovering", "TrainingFailed", 1)
    assert now_on(story) == ASKED


def test_a_decision_that_is_seen_late_is_still_taken_on_a_new_cluster(story: Story) -> None:
    story.look(submission=END)
    story.trainer_says({"balance": DECIDED})
    assert groups(story.look(after=60)) == {"actor": 3, "critic": 1}


def test_after_a_loss_the_run_goes_on_where_it_had_moved_to(story: Story) -> None:
    story.trainer_says({"balance": DECIDED})
    story.look(submission=END)
    story.look()
    everyone = pods()
    story.look(clusters=(cluster("job-2"),), pods=everyone, ray_nodes=ips(*everyone), submission=submitted(None))
    story.look(submission=submitted("FAILED", message="WorkerDied: gone.", exit_code=1))
    story.look(after=60)
    attempt = story.snapshot.attempt
    assert attempt is not None
    assert (attempt.number, attempt.split, attempt.cluster) == (3, BETTER, "job-2")


@pytest.mark.parametrize(
    "change",
    [
        {"placement": {"total": {"gpusPerNode": 8}}},
        {"placement": {"actorFraction": "1/4"}},
        {"balance": {"mode": "Recommend"}},
    ],
)
def test_another_spec_forgets_what_was_decided_for_the_old_one(story: Story, change: dict[str, Any]) -> None:
    story.trainer_says({"balance": DECIDED})
    story.look(submission=END)
    story.change(change)
    story.trainer_says({})
    assert story.snapshot.status.balance is None
    assert now_on(story) != BETTER


def test_a_run_that_has_moved_stays_there_when_moving_is_switched_off(story: Story) -> None:
    story.trainer_says({"balance": DECIDED})
    story.look(submission=END)
    story.look()
    story.change({"balance": {"mode": "Recommend"}})
    story.trainer_says({})
    assert now_on(story) == BETTER, "its pods are there"


@pytest.mark.parametrize("split", ["actor 60 + critic 4", "anything", ASKED])
def test_a_split_that_there_is_not_is_not_made(story: Story, split: str) -> None:
    story.trainer_says({"balance": {**DECIDED, "split": split}})
    story.look(submission=END)
    assert now_on(story) == ASKED
