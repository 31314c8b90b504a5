"""When the watchdog ends a run, and what it says."""

import threading

import pytest

from split_ppo_trainer.failures import RunFailure
from split_ppo_trainer.watchdog import LIMITS, Roll, Watch, Watchdog, judge

HERE = Roll({"n1": "node 10.0.0.5 of pool critic (n1)"}, {"a1": "WorkerDict on 10.0.0.5 (pool critic)"})
GONE = Roll({}, {})
WATCH = Watch("weight_sync", "weights of step 3 to reach the rollout servers", moved_at=100.0)


def verdict(watch: Watch | None, *, now: float, expected: Roll = HERE, present: Roll = HERE) -> RunFailure | None:
    return judge(watch, now=now, limits=LIMITS, expected=expected, present=present)


def test_it_waits_while_there_is_time() -> None:
    assert verdict(WATCH, now=100 + LIMITS["weight_sync"]) is None
    assert verdict(None, now=1e9) is None


@pytest.mark.parametrize("stage", LIMITS)
def test_each_stage_has_a_limit_and_its_sentence_says_what_was_waited_for(stage: str) -> None:
    failure = verdict(Watch(stage, "the moon", moved_at=0.0), now=LIMITS[stage] + 1)
    assert failure is not None
    assert "while waiting for the moon" in failure.message
    assert failure.reason.endswith("talled")


def test_a_lost_node_ends_the_run_at_once_whatever_is_being_done() -> None:
    failure = verdict(WATCH, now=100, present=GONE)
    assert failure is not None
    assert failure.reason == "NodeLost"
    assert "node 10.0.0.5 of pool critic" in failure.message
    assert "weights of step 3" in failure.message


def test_a_dead_helper_ends_the_run_though_its_node_lives() -> None:
    failure = verdict(WATCH, now=100, present=Roll(HERE.nodes, {}))
    assert failure is not None
    assert failure.reason == "WorkerDied"


def test_a_pulse_keeps_the_run_alive_and_its_absence_ends_it() -> None:
    now, prompts = [0.0], [16]
    dog = Watchdog(look=lambda: HERE, bark=lambda _: None, limits={"generation": 10.0}, clock=lambda: now[0])
    dog.expect(HERE)
    dog.enter("generation", "generation of step 1", pulse=lambda: prompts[0])
    for _ in range(5):
        now[0] += 9
        prompts[0] -= 1
        assert dog.look_once() is None
    now[0] += 11
    failure = dog.look_once()
    assert failure is not None
    assert failure.reason == "GenerationStalled"


def test_the_thread_barks_once_and_survives_a_look_that_fails() -> None:
    barked, looked = threading.Event(), []

    def look() -> Roll:
        looked.append(1)
        if len(looked) == 1:
            raise ConnectionError("the control plane is away")
        return GONE

    dog = Watchdog(look=look, bark=lambda failure: barked.set(), every=0.01)
    dog.expect(HERE)
    dog.start()
    assert barked.wait(10)
    dog._thread.join(10)
    assert not dog._thread.is_alive()
    assert len(looked) == 2
