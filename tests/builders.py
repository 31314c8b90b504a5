"""Small builders: a job is the least that is valid, with what a test is about laid over it."""

from copy import deepcopy
from typing import Any

from split_ppo.api.job import SplitPPOJob, parse_job
from split_ppo.verl_config import merge

MINIMAL: dict[str, Any] = {
    "apiVersion": "splitppo.io/v1alpha1",
    "kind": "SplitPPOJob",
    "metadata": {"name": "job"},
    "spec": {
        "placement": {"total": {"gpusPerNode": 4}},
        "training": {"model": {"actor": "model"}, "data": {"train": ["train.parquet"]}},
    },
}


def job_document(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A job as YAML would give it; a key that is None is taken away."""
    document = deepcopy(MINIMAL)
    document["metadata"] |= metadata
    merge(document["spec"], deepcopy(spec or {}))
    return document


def make_job(spec: dict[str, Any] | None = None, **metadata: Any) -> SplitPPOJob:
    return parse_job(job_document(spec, **metadata))


def pools(actor: int, critic: int, *, nodes: int = 1, reward: int = 0, **placement: Any) -> dict[str, Any]:
    """A spec with explicit pools of so many GPUs a node."""
    declared = {"actor": actor, "critic": critic, "reward": reward}
    return {
        "placement": {
            "total": None,
            "pools": {name: {"nodes": nodes, "gpusPerNode": gpus} for name, gpus in declared.items() if gpus},
            **placement,
        }
    }
