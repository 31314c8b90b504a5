"""Small plans for tests: a toy model, a handful of rows, seconds per step."""

from pathlib import Path
from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import PlacementPlan, PoolPlan
from split_ppo.runplan import JobRef, RunPlan, RunStorage
from split_ppo.verl_config import merge, verl_settings

POOLS = {
    "split": {"actor": (1,), "critic": (1,)},
    "uneven": {"actor": (2,), "critic": (1,)},
    "reward": {"actor": (1,), "critic": (1,), "reward": (1,)},
    "colocated": {"actor": (1,)},
}
ROLES = {"ActorRollout": "actor", "Critic": "critic"}


def tiny_plan(
    *,
    layout: str = "split",
    overlap: str = "None",
    steps: int = 2,
    roles: dict[str, str] | None = None,
    storage: Path | None = None,
    every_steps: int = 1,
    keep: int = 2,
    config: dict[str, Any] | None = None,
) -> RunPlan:
    """A plan on the toy model, batch 8, 8 response tokens."""
    pools = tuple(PoolPlan(name=name, resource=f"{name}_pool", gpus=gpus) for name, gpus in POOLS[layout].items())
    assigned = dict(ROLES) if layout != "colocated" else dict.fromkeys(ROLES, "actor")
    assigned |= roles or {}
    placement = PlacementPlan(
        mode="Colocated" if layout == "colocated" else "Split",
        device="CPU",
        layout="AcrossNodes",
        pools=pools,
        roles=assigned,
    )
    return RunPlan(
        job=JobRef(name="tiny"),
        placement=placement,
        overlap=overlap,
        storage=RunStorage(path=None if storage is None else str(storage), every_steps=every_steps, keep=keep),
        verl=merge(tiny_settings(steps), config or {}),
    )


def tiny_settings(steps: int) -> dict[str, Any]:
    job = SplitPPOJob.model_validate(
        {
            "apiVersion": "splitppo.io/v1alpha1",
            "kind": "SplitPPOJob",
            "metadata": {"name": "tiny"},
            "spec": {
                "placement": {
                    "device": "CPU",
                    "pools": {"actor": {"nodes": 1, "gpusPerNode": 1}, "critic": {"nodes": 1, "gpusPerNode": 1}},
                },
                "training": {
                    "model": {"actor": "toy://digits/model"},
                    "data": {
                        "train": ["toy://digits/train.parquet"],
                        "maxPromptLength": 64,
                        "maxResponseLength": 8,
                    },
                    "reward": {"function": {"path": "toy://digits/reward.py", "name": "compute_score"}},
                    "batchSize": 8,
                    "miniBatchSize": 4,
                    "microBatchSizePerGPU": 2,
                    "learningRate": {"actor": 1e-3, "critic": 1e-3},
                    "rollout": {"temperature": 1.0},
                    "steps": steps,
                    "seed": 1,
                },
            },
        }
    )
    settings = verl_settings(job.spec, reward_file="toy://digits/reward.py")
    rollout = {"max_model_len": 128, "max_num_seqs": 64}
    return merge(settings, {"actor_rollout_ref": {"rollout": rollout}, "data": {"filter_overlong_prompts": False}})
