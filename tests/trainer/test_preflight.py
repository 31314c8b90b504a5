"""What preflight says is missing, from what Ray reports; and that it waits no longer than it was told to."""

import pytest
from plans import tiny_plan

from split_ppo_trainer.preflight import Node, missing, wait_for_pools

SPLIT = tiny_plan(layout="split").placement
UNEVEN = tiny_plan(layout="uneven").placement


def node(name: str, **free: float) -> Node:
    return Node(name, free)


HEAD = node("head", CPU=4)
ACTOR = node("a", CPU=4, GPU=1, actor_pool=1)
CRITIC = node("c", CPU=3, GPU=1, critic_pool=1)


@pytest.mark.parametrize(
    ("nodes", "sentences"),
    [
        ([HEAD, ACTOR, CRITIC], []),
        ([HEAD, ACTOR], ["Pool critic needs 1 Ray node with resource critic_pool; there are none."]),
        (
            [HEAD, ACTOR, node("c", CPU=3, critic_pool=1)],
            ["Pool critic needs 1 GPU on node c, which carries critic_pool; 0 GPUs are free there."],
        ),
        (
            [HEAD, node("a", CPU=3, GPU=1, actor_pool=1), CRITIC],
            [
                "Pool actor needs 4 CPUs (3 for each GPU, one for the data queue on the actor's nodes) on node a, which "
                "carries actor_pool; 3 CPUs are free there."
            ],
        ),
        # A node that carries both resources cannot give its one GPU twice.
        (
            [HEAD, node("both", CPU=16, GPU=1, actor_pool=1, critic_pool=1)],
            ["Pool critic needs 1 GPU on node both, which carries critic_pool; 0 GPUs are free there."],
        ),
        ([HEAD, node("both", CPU=16, GPU=2, actor_pool=1, critic_pool=1)], []),
    ],
    ids=["all there", "no critic node", "no GPU", "too few CPUs", "one GPU for two pools", "two pools on one node"],
)
def test_missing(nodes: list[Node], sentences: list[str]) -> None:
    assert [short.sentence for short in missing(SPLIT, nodes)] == sentences


def test_an_uneven_split_needs_both_gpus_on_one_node() -> None:
    two_small = [node("a1", CPU=4, GPU=1, actor_pool=1), node("a2", CPU=4, GPU=1, actor_pool=1)]
    assert [(s.pool, s.resource, s.have, s.need) for s in missing(UNEVEN, [*two_small, CRITIC])] == [
        ("actor", "GPU", 1, 2),
        ("actor", "CPU", 4, 7),
    ]
    assert not missing(UNEVEN, [node("a", CPU=7, GPU=2, actor_pool=2), CRITIC])


class FakeTime:
    """A clock that moves when something waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def test_it_goes_as_soon_as_the_pools_are_there_and_says_each_change_once() -> None:
    time, said = FakeTime(), []
    cluster = {0: [HEAD], 3: [HEAD, ACTOR], 5: [HEAD, ACTOR, CRITIC]}

    def look() -> list[Node]:
        return cluster[max(second for second in cluster if second <= time.now)]

    lacking = wait_for_pools(SPLIT, seconds=60, look=look, say=said.append, clock=time.clock, pause=time.pause)
    assert lacking == []
    assert time.now == 5
    assert [[short.pool for short in lacking] for lacking in said] == [["actor", "critic"], ["critic"]]


def test_it_gives_up_at_the_deadline_with_what_is_missing() -> None:
    time = FakeTime()
    lacking = wait_for_pools(
        SPLIT, seconds=7.5, look=lambda: [HEAD, ACTOR], say=lambda _: None, clock=time.clock, pause=time.pause
    )
    assert [short.pool for short in lacking] == ["critic"]
    assert time.now == pytest.approx(7.5)
