"""The decisions, as stories: what is seen, look by look, and what is decided."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots import HEAD, Story, cluster, ips, later, pod, pods, see, submitted
from split_ppo_operator.actions import Apply, DeleteCluster, DeleteJob, ShrinkCluster, Stop, Submit
from split_ppo_operator.plan import plan
from split_ppo_operator.verdict import Verdict

FAILED = {"message": "log\nsplit-ppo: a worker died.", "exit_code": 1}


def kinds(verdict: Verdict) -> list[type]:
    return [type(action) for action in verdict.actions]


def test_an_undisturbed_job() -> None:
    story = Story()
    first = story.look()
    assert (first.phase, kinds(first)) == ("Provisioning", [Apply])
    [apply] = first.actions
    assert isinstance(apply, Apply)
    assert [o["kind"] for o in apply.objects][-1] == "RayCluster"
    assert apply.objects[-1]["metadata"]["name"] == "job-1"

    waiting = story.look(clusters=(cluster(),))
    assert (waiting.phase, waiting.actions) == ("Provisioning", ())
    assert "actor 0/1, critic 0/1" in waiting.message

    half = story.look(pods=pods(critic=False))
    assert (half.phase, half.actions, half.reason) == ("Provisioning", (), "Starting")

    everyone = pods()
    submit = story.look(pods=everyone, ray_nodes=ips(*everyone), submission=submitted(None))
    assert (submit.phase, kinds(submit)) == ("Starting", [Submit])
    [action] = submit.actions
    assert isinstance(action, Submit)
    assert (action.cluster, action.id) == ("job-1", "u-1")

    assert story.look(submission=submitted("PENDING")).phase == "Starting"
    assert story.look(submission=submitted("RUNNING")).phase == "Running"
    done = story.look(submission=submitted("SUCCEEDED"))
    assert (done.phase, done.finished_at) == ("Succeeded", story.now)
    cleanup = story.look()
    assert (cleanup.phase, cleanup.actions) == ("Succeeded", (DeleteCluster("job-1", "uid-job-1"),))
    rest = story.look(clusters=(), pods=())
    assert (rest.phase, rest.actions, rest.again) == ("Succeeded", (), None)


def test_nothing_is_submitted_before_all_is_there() -> None:
    story = Story()
    story.look()
    everyone = pods()
    for seen in (
        {"pods": pods(head=False)},
        {"pods": pods(actor=False)},
        {"pods": (pod("actor"), pod("critic"))},
        {"pods": everyone, "ray_nodes": None, "blind": "Ray's dashboard can't be reached"},
        {"pods": everyone, "ray_nodes": ips(*everyone[:2]), "submission": submitted(None)},
    ):
        assert Submit not in kinds(story.look(clusters=(cluster(),), **seen))


def test_a_pod_that_ray_does_not_count_is_named() -> None:
    story = Story()
    story.look()
    everyone = pods()
    verdict = story.look(clusters=(cluster(),), pods=everyone, ray_nodes=ips(*everyone[:2]), submission=submitted(None))
    assert "Ray does not count job-1-critic-0" in verdict.message


def test_a_submission_we_forgot_is_adopted_not_repeated() -> None:
    story = Story()
    story.look()
    everyone = pods()
    verdict = story.look(
        clusters=(cluster(),), pods=everyone, ray_nodes=ips(*everyone), submission=submitted("RUNNING")
    )
    assert verdict.actions == ()
    assert verdict.attempt is not None
    assert verdict.attempt.submission_id == "u-1"


def test_deciding_again_before_anything_was_written_decides_the_same() -> None:
    snapshot = see()
    assert plan(snapshot, later(0)) == plan(snapshot, later(0))


def test_a_failed_attempt_goes_on_with_the_same_cluster() -> None:
    story = Story()
    story.run()
    failed = story.look(submission=submitted("FAILED", **FAILED))
    assert (failed.phase, failed.failures) == ("Recovering", 1)
    assert "split-ppo: a worker died." in failed.message
    waiting = story.look()
    assert (waiting.reason, waiting.actions) == ("BackingOff", ())
    again = story.look(after=20)
    assert again.attempt is not None
    assert (again.attempt.number, again.attempt.cluster, again.actions) == (2, "job-1", ())
    everyone = story.snapshot.pods
    submit = story.look(ray_nodes=ips(*everyone), submission=submitted(None))
    [action] = submit.actions
    assert isinstance(action, Submit)
    assert (action.cluster, action.id) == ("job-1", "u-2")


@pytest.mark.parametrize(
    ("restart", "expected"), [("Auto", "job-1"), ("Job", "job-1"), ("Cluster", "job-2"), ("Never", None)]
)
def test_restart_policies(restart: str, expected: str | None) -> None:
    story = Story({"runPolicy": {"restart": restart}})
    story.run()
    failed = story.look(submission=submitted("FAILED", **FAILED))
    if expected is None:
        assert failed.phase == "Failed"
        return
    again = story.look(after=20)
    assert again.attempt is not None
    assert again.attempt.cluster == expected
    if expected == "job-2":
        assert kinds(again) == [DeleteCluster, Apply], "the old cluster's GPUs go back first"


def test_a_cluster_that_does_not_come_back_is_replaced() -> None:
    story = Story()
    story.run()
    story.look(submission=submitted("FAILED", **FAILED), pods=pods(critic=False))
    story.look(after=20)
    assert story.look(after=60).actions == ()
    moved = story.look(after=200)
    assert kinds(moved) == [DeleteCluster, Apply]
    assert moved.attempt is not None
    assert (moved.attempt.number, moved.attempt.cluster) == (2, "job-2")


def test_a_lost_node_moves_to_a_new_cluster_at_once() -> None:
    story = Story()
    story.run()
    lost = (*pods()[:2], pod("critic", ready=False, stuck=True, reason="NodeLost", message="its node does not answer."))
    story.look(submission=submitted("FAILED", **FAILED), pods=lost)
    again = story.look(after=20)
    assert again.attempt is not None
    assert again.attempt.cluster == "job-2"


def test_a_trainer_that_hangs_after_losing_a_pod_is_ended() -> None:
    story = Story()
    story.run()
    broken = pods(critic=False)
    assert story.look(pods=broken, submission=submitted("RUNNING")).phase == "Running"
    assert story.look(after=30, submission=submitted("RUNNING")).phase == "Running"
    ended = story.look(after=90, submission=submitted("RUNNING"))
    assert (ended.phase, kinds(ended)) == ("Recovering", [Stop])


def test_a_head_that_forgot_is_a_failure_not_a_new_beginning() -> None:
    story = Story()
    story.run()
    forgot = story.look(submission=submitted(None))
    assert (forgot.phase, forgot.reason, forgot.actions) == ("Recovering", "HeadRestarted", ())


def test_a_head_that_restarted_is_noticed_even_before_it_answers() -> None:
    story = Story()
    story.run()
    restarted = (pod(HEAD, restarts=1), *pods()[1:])
    assert story.look(pods=restarted, submission=submitted("RUNNING")).reason == "HeadRestarted"


def test_backoff_limit() -> None:
    story = Story({"runPolicy": {"backoffLimit": 1}})
    story.run()
    assert story.look(submission=submitted("FAILED", **FAILED)).phase == "Recovering"
    story.look(after=20)
    story.look(ray_nodes=ips(*story.snapshot.pods), submission=submitted(None))
    last = story.look(submission=submitted("FAILED", **FAILED))
    assert (last.phase, last.failures) == ("Failed", 2)
    assert "backoffLimit is 1" in last.message
    assert DeleteCluster in kinds(story.look())


def test_bad_input_is_not_tried_again() -> None:
    story = Story()
    story.run()
    verdict = story.look(submission=submitted("FAILED", message="no such model", exit_code=2))
    assert (verdict.phase, verdict.reason) == ("Failed", "BadInput")
    assert "no such model" in verdict.message


def test_startup_deadline_says_what_was_missing() -> None:
    story = Story({"runPolicy": {"startupDeadlineSeconds": 60, "backoffLimit": 0}})
    story.look()
    short = (
        pod(
            "actor", ready=False, reason="Unschedulable", message="Pod a finds no node: 3 Insufficient nvidia.com/gpu."
        ),
    )
    assert story.look(clusters=(cluster(),), pods=short).phase == "Provisioning"
    verdict = story.look(after=60)
    assert (verdict.phase, verdict.reason) == ("Failed", "StartupDeadline")
    assert "Insufficient nvidia.com/gpu" in verdict.message


def test_active_deadline_counts_all_attempts() -> None:
    story = Story({"runPolicy": {"activeDeadlineSeconds": 100}})
    story.run()
    assert story.look(after=50, submission=submitted("RUNNING")).phase == "Running"
    verdict = story.look(after=60, submission=submitted("RUNNING"))
    assert (verdict.phase, verdict.reason, kinds(verdict)) == ("Failed", "ActiveDeadline", [Stop])


def test_suspend_and_resume() -> None:
    story = Story()
    story.run()
    story.change({"suspend": True})
    going = story.look(submission=submitted("RUNNING"))
    assert (going.phase, kinds(going)) == ("Suspended", [Stop, DeleteCluster])
    assert "waiting for 3 pods" in going.message
    still = story.look(clusters=())
    assert still.reason == "Suspending"
    gone = story.look(pods=())
    assert (gone.phase, gone.reason, gone.actions, gone.again) == ("Suspended", "Suspended", (), None)
    story.change({"suspend": False})
    again = story.look()
    assert again.attempt is not None
    assert (again.phase, again.attempt.number, again.attempt.cluster) == ("Provisioning", 2, "job-2")
    assert (story.snapshot.status.failures or 0) == 0


def test_suspended_from_the_start_makes_nothing() -> None:
    story = Story({"suspend": True})
    verdict = story.look()
    assert (verdict.phase, verdict.actions) == ("Suspended", ())


def test_waiting_in_a_queue_is_not_counted_as_starting() -> None:
    story = Story({"scheduling": {"queueName": "team"}, "runPolicy": {"startupDeadlineSeconds": 60}})
    story.look()
    held = cluster(suspended=True, problem=("Queued", "insufficient unused quota for nvidia.com/gpu, 1 more needed"))
    waiting = story.look(after=600, clusters=(held,))
    assert (waiting.phase, waiting.reason) == ("Pending", "Queued")
    assert "insufficient unused quota" in waiting.message
    admitted = story.look(after=600, clusters=(cluster(),))
    assert admitted.phase == "Provisioning"


def test_preemption_is_not_a_failure() -> None:
    story = Story({"scheduling": {"queueName": "team"}})
    story.run()
    lost = story.look(clusters=(cluster(suspended=True),), pods=())
    assert (lost.phase, lost.reason, lost.failures) == ("Pending", "Preempted", None)
    queued = story.look()
    assert queued.attempt is not None
    assert (queued.attempt.number, queued.attempt.cluster, queued.actions) == (2, "job-1", ())
    assert story.look().reason == "Queued"
    everyone = pods()
    back = story.look(clusters=(cluster(),), pods=everyone, ray_nodes=ips(*everyone), submission=submitted(None))
    assert kinds(back) == [Submit]
    assert (story.snapshot.status.failures or 0) == 0


def test_a_wrong_spec_makes_nothing_and_a_corrected_one_goes_on() -> None:
    story = Story({"placement": {"total": {"gpusPerNode": 7}}})
    wrong = story.look()
    assert (wrong.phase, wrong.accepted, wrong.actions) == ("Pending", False, ())
    assert wrong.reason == "BatchNotDivisible"
    story.change({"placement": {"total": {"gpusPerNode": 8}}})
    assert kinds(story.look()) == [Apply]


def test_what_cannot_be_seen_is_not_decided_on() -> None:
    story = Story()
    verdict = story.look(hindrance=("KubeRayMissing", "The cluster has no RayClusters: install KubeRay."))
    assert (verdict.phase, verdict.reason, verdict.actions) == ("Pending", "KubeRayMissing", ())
    assert kinds(story.look(hindrance=None)) == [Apply]
    running = Story()
    running.run()
    verdict = running.look(hindrance=("Forbidden", "not allowed"), clusters=(), pods=())
    assert (verdict.phase, verdict.actions, verdict.attempt) == ("Running", (), None)


def test_a_cluster_made_before_a_crash_is_taken_over_untouched() -> None:
    story = Story()
    verdict = story.look(clusters=(cluster(suspended=True),))
    [beside] = verdict.actions
    assert isinstance(beside, Apply)
    assert {o["kind"] for o in beside.objects} == {"ServiceAccount", "Role", "RoleBinding"}
    assert verdict.attempt is not None
    assert verdict.attempt.cluster == "job-1"


def test_somebody_deletes_the_cluster() -> None:
    story = Story()
    story.run()
    lost = story.look(clusters=(), pods=())
    assert (lost.phase, lost.reason) == ("Recovering", "ClusterDeleted")
    again = story.look(after=20)
    assert again.attempt is not None
    assert again.attempt.cluster == "job-2"


@pytest.mark.parametrize(
    ("cleanup", "expected"), [("Cluster", [DeleteCluster]), ("Workers", [ShrinkCluster]), ("None", [])]
)
def test_cleanup(cleanup: str, expected: list[type]) -> None:
    story = Story({"runPolicy": {"cleanup": cleanup}})
    story.run()
    story.look(submission=submitted("SUCCEEDED"))
    assert kinds(story.look()) == expected


def test_the_head_stays_when_only_workers_are_cleaned_up() -> None:
    story = Story({"runPolicy": {"cleanup": "Workers"}})
    story.run()
    story.look(submission=submitted("SUCCEEDED"))
    [action] = story.look().actions
    assert isinstance(action, ShrinkCluster)
    assert [g["replicas"] for g in action.manifest["spec"]["workerGroupSpecs"]] == [0, 0]
    assert action.manifest["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert action.manifest["metadata"]["uid"] == "uid-job-1", "and no other of that name"
    assert story.look(pods=pods()[:1]).actions == ()


def test_what_is_kueues_is_not_shrunk_but_deleted() -> None:
    story = Story({"runPolicy": {"cleanup": "Workers"}, "scheduling": {"queueName": "team"}})
    story.run()
    story.look(submission=submitted("SUCCEEDED"))
    assert kinds(story.look()) == [DeleteCluster]


def test_ttl() -> None:
    story = Story({"runPolicy": {"ttlSecondsAfterFinished": 100}})
    story.run()
    story.look(submission=submitted("SUCCEEDED"))
    waiting = story.look(clusters=(), pods=())
    assert waiting.again is not None
    assert waiting.again <= 100
    assert kinds(story.look(after=101)) == [DeleteJob]


def test_an_unanswering_dashboard_is_no_failure() -> None:
    story = Story()
    story.run()
    verdict = story.look(blind="Ray's dashboard can't be reached: busy")
    assert (verdict.phase, verdict.reason, verdict.actions) == ("Running", "RayNotAnswering", ())


def test_a_finished_job_never_starts_again() -> None:
    story = Story()
    story.run()
    story.look(submission=submitted("SUCCEEDED"))
    story.change({"suspend": True})
    assert story.look().phase == "Succeeded"
    story.change({"suspend": False})
    assert Apply not in kinds(story.look(clusters=(), pods=(), after=1000))


LOST = pod("actor", ready=False, stuck=True, reason="NodeLost", message="its node does not answer.")
STATUSES = (None, "PENDING", "RUNNING", "FAILED", "SUCCEEDED", "STOPPED")
CLUSTERS = [(), (cluster(),), (cluster(suspended=True),), (cluster(deleting=True),), (cluster(), cluster("job-2"))]
SEEN: dict[str, st.SearchStrategy[Any]] = {
    "clusters": st.sampled_from(CLUSTERS),
    "pods": st.sampled_from([(), pods(), pods(critic=False), pods(head=False), (LOST,)]),
    "submission": st.sampled_from([None, *(submitted(s) for s in STATUSES)]),
    "ray_nodes": st.sampled_from([None, ips(*pods()), frozenset()]),
    "after": st.sampled_from([1.0, 30.0, 400.0, 4000.0]),
}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.fixed_dictionaries(SEEN), max_size=12), st.booleans())
def test_whatever_is_seen_the_rules_hold(looks: list[dict[str, Any]], suspend_midway: bool) -> None:
    story = Story({"runPolicy": {"backoffLimit": 2}})
    submissions: list[str] = []
    for number, seen in enumerate(looks):
        if suspend_midway and number == 3:
            story.change({"suspend": True})
        before = story.snapshot.status
        verdict = story.look(**seen)
        after = story.snapshot.status
        if before.phase in ("Succeeded", "Failed"):
            assert after.phase == before.phase
            assert not {Apply, Submit} & set(kinds(verdict))
        if suspend_midway and number >= 3:
            assert not {Apply, Submit} & set(kinds(verdict))
        submissions += [a.id for a in verdict.actions if isinstance(a, Submit)]
        assert (after.failures or 0) <= 3
        assert (after.attempt or 0) >= (before.attempt or 0)
        assert sum(a.outcome == "Running" for a in after.attempts or []) <= 1
        numbers = [a.number for a in after.attempts or []]
        assert numbers == sorted(set(numbers))
    assert len(submissions) == len(set(submissions)), "one submission per attempt"


def test_looking_again_at_rest_changes_nothing() -> None:
    story = Story()
    story.run()
    written = story.snapshot.raw_status
    for _ in range(3):
        story.look(after=timedelta(minutes=10).total_seconds(), submission=submitted("RUNNING"))
    assert story.snapshot.raw_status == written
