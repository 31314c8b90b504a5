"""Whose agent answers a prompt."""

import pytest

pytestmark = pytest.mark.trainer


def test_only_verls_own_agent_is_kept_between_prompts() -> None:
    from verl.experimental.agent_loop import agent_loop
    from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

    from split_ppo_trainer.rollout import is_verls_own

    before = dict(agent_loop._agent_loop_registry)
    try:
        assert is_verls_own("single_turn_agent")
        assert not is_verls_own("nobody")
        agent_loop.register("mine")(type("Mine", (SingleTurnAgentLoop,), {}))
        assert not is_verls_own("mine")
        agent_loop._agent_loop_registry["single_turn_agent"] = {"_target_": "my.agent"}
        assert not is_verls_own("single_turn_agent"), "a user may put another one under its name"
    finally:
        agent_loop._agent_loop_registry.clear()
        agent_loop._agent_loop_registry.update(before)
