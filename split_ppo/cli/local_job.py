"""A job as this machine trains it: what the command line overrides, and paths that mean something here.

Pure but for looking whether a file exists: the job and its folder in, a job out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.planner import plan_placement


class LocalJobError(Exception):
    """The job can't be run like this; the message is for the user."""


def override(
    job: SplitPPOJob, *, mode: str | None = None, overlap: str | None = None, steps: int | None = None
) -> SplitPPOJob:
    """The job with what the command line says instead."""
    data = job.model_dump(by_alias=True, exclude_unset=True, exclude={"status"})
    spec = data["spec"]
    if mode is not None and mode != job.spec.placement.mode:
        spec["placement"] = _in_mode(job, spec["placement"], mode)
    if overlap is not None:
        spec["overlap"] = overlap
    if steps is not None:
        spec["training"].pop("epochs", None)
        spec["training"]["steps"] = steps
    return SplitPPOJob.model_validate(data)


def _in_mode(job: SplitPPOJob, placement: dict[str, Any], mode: str) -> dict[str, Any]:
    """The same GPUs in the other mode. Colocated has them all in one pool, on this one machine."""
    kept = {key: value for key, value in placement.items() if key in ("device", "total")}
    if mode == "Colocated" and "total" not in kept:
        kept["pools"] = {"actor": {"nodes": 1, "gpusPerNode": plan_placement(job.spec.placement).total_gpus}}
    elif "total" not in kept:
        raise LocalJobError(
            "The job declares the one pool actor: --mode Split needs to know how its GPUs are to be split."
        )
    return {**kept, "mode": mode}


def with_local_paths(job: SplitPPOJob, folder: Path) -> SplitPPOJob:
    """The job with paths that lie beside its file made absolute; names on a hub and URIs stay as they are."""

    def local(path: str) -> str:
        beside = folder / path
        return str(beside.resolve()) if "://" not in path and beside.exists() else path

    data = job.model_dump(by_alias=True, exclude_unset=True, exclude={"status"})
    training = data["spec"]["training"]
    training["model"] |= {key: local(training["model"][key]) for key in ("actor", "critic") if key in training["model"]}
    training["data"] |= {
        key: [local(path) for path in training["data"][key]]
        for key in ("train", "validation")
        if key in training["data"]
    }
    reward = training.get("reward", {})
    for part in (reward.get("function"), reward.get("model")):
        if part and "path" in part:
            part["path"] = local(part["path"])
    return SplitPPOJob.model_validate(data)


def reward_source(job: SplitPPOJob, others: Sequence[Mapping[str, Any]], source: str) -> str | None:
    """The text of a reward function that the job takes from a ConfigMap, which has to stand in the same file."""
    function = job.spec.training.reward.function
    if function is None or function.config_map is None:
        return None
    for other in others:
        if other.get("kind") == "ConfigMap" and other.get("metadata", {}).get("name") == function.config_map:
            text = (other.get("data") or {}).get(function.key)
            if isinstance(text, str):
                return text
            raise LocalJobError(f"ConfigMap {function.config_map} in {source} has no key {function.key}.")
    raise LocalJobError(
        f"The reward function is in ConfigMap {function.config_map}, which is not in {source}: put it there as a second "
        "document, or name the file with reward.function.path."
    )
