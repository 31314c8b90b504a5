"""How often each piece of a step exchanges parameters."""

from typing import Any

import pytest

from run_folders import run_plan
from split_ppo.placement.exchange import Exchange, exchange_seconds
from split_ppo.verl_config import merge

KNOWN = {"ActorRollout": Exchange(gather=0.1, scatter=0.2), "Critic": Exchange(gather=0.01, scatter=0.02)}


def seconds(known: dict[Any, Exchange] = KNOWN, *, samples: int = 1, **config: Any) -> dict[str, float]:
    training = {
        "batchSize": 64,
        "miniBatchSize": 32,
        "microBatchSizePerGPU": 8,
        "rollout": {"samplesPerPrompt": samples},
    }
    plan = run_plan(training=training)
    return exchange_seconds(known, merge(plan.verl, config))


def test_passes_gather_once_for_each_micro_batch_and_updates_on_their_way_back_too() -> None:
    assert seconds() == pytest.approx(
        {
            "old_log_prob": 8 * 0.1,
            "ref": 8 * 0.1,
            "values": 8 * 0.01,
            "update_actor": 8 * (0.1 + 0.1 + 0.2),
            "update_critic": 8 * (0.01 + 0.01 + 0.02),
            "update_weights": 0.1,
        }
    )


def test_samples_and_epochs_repeat_it() -> None:
    once, found = seconds(), seconds(samples=2, critic={"ppo_epochs": 3})
    times = {piece: found[piece] / once[piece] for piece in once}
    assert times == pytest.approx(
        {"old_log_prob": 2, "ref": 2, "values": 2, "update_actor": 2, "update_critic": 6, "update_weights": 1}
    )


def test_nothing_is_known_of_what_was_not_measured() -> None:
    assert seconds({}) == {}
    assert set(seconds({"Critic": KNOWN["Critic"]})) == {"values", "update_critic"}


def test_the_number_of_micro_batches_cut_by_tokens_is_not_known() -> None:
    assert seconds(critic={"use_dynamic_bsz": True}) == {}
