"""A job as this machine trains it."""

from pathlib import Path
from typing import Any

import pytest

from split_ppo.api.job import SplitPPOJob
from split_ppo.cli.local_job import LocalJobError, override, reward_source, with_local_paths
from split_ppo.jobfile import load_jobs
from split_ppo.placement.checks import check_job


def job(*, placement: dict[str, Any] | None = None, **training: Any) -> SplitPPOJob:
    pools = {"actor": {"gpusPerNode": 2}, "critic": {"gpusPerNode": 1}}
    return SplitPPOJob.model_validate(
        {
            "apiVersion": "splitppo.io/v1alpha1",
            "kind": "SplitPPOJob",
            "metadata": {"name": "j"},
            "spec": {
                "placement": placement or {"device": "CPU", "pools": pools},
                "training": {
                    "model": {"actor": "toy://digits/model"},
                    "data": {"train": ["toy://digits/train.parquet"]},
                    "batchSize": 12,
                    "miniBatchSize": 6,
                    "microBatchSizePerGPU": 1,
                    **training,
                },
            },
        }
    )


def test_colocated_has_the_same_gpus_in_one_pool() -> None:
    found = check_job(override(job(), mode="Colocated"), on_kubernetes=False)
    assert (found.mode, [(p.name, p.gpus) for p in found.pools], found.findings) == ("Colocated", [("actor", (3,))], ())


def test_colocated_from_a_total() -> None:
    found = override(job(placement={"device": "CPU", "total": {"nodes": 1, "gpusPerNode": 4}}), mode="Colocated")
    assert check_job(found, on_kubernetes=False).total_gpus == 4


def test_one_pool_cannot_be_split_by_guessing() -> None:
    colocated = job(placement={"mode": "Colocated", "device": "CPU", "pools": {"actor": {"gpusPerNode": 2}}})
    with pytest.raises(LocalJobError, match="how its GPUs are to be split"):
        override(colocated, mode="Split")


def test_steps_take_the_place_of_epochs() -> None:
    found = override(job(epochs=3), steps=7, overlap="Update")
    assert (found.spec.training.steps, found.spec.training.epochs, found.spec.overlap) == (7, None, "Update")


def test_nothing_asked_nothing_changed() -> None:
    assert override(job()) == job()


def test_paths_beside_the_file_become_absolute_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").touch()
    (tmp_path / "reward.py").touch()
    before = job(
        model={"actor": "Qwen/Qwen2.5-0.5B"},
        data={"train": ["train.parquet", "s3://bucket/x.parquet", "/data/y.parquet"]},
        reward={"function": {"path": "reward.py"}},
    )
    training = with_local_paths(before, tmp_path).spec.training
    assert training.model.actor == "Qwen/Qwen2.5-0.5B"
    assert training.data.train == [str(tmp_path / "train.parquet"), "s3://bucket/x.parquet", "/data/y.parquet"]
    assert training.reward.function is not None
    assert training.reward.function.path == str(tmp_path / "reward.py")


def test_the_reward_function_comes_from_the_same_file() -> None:
    from_map = job(reward={"function": {"configMap": "mine", "key": "r.py"}})
    good = {"kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"r.py": "def compute_score(): ..."}}
    assert reward_source(from_map, [{"kind": "Secret"}, good], "job.yaml") == "def compute_score(): ..."
    assert reward_source(job(), [good], "job.yaml") is None
    with pytest.raises(LocalJobError, match=r"ConfigMap mine in job\.yaml has no key r\.py"):
        reward_source(from_map, [{**good, "data": {}}], "job.yaml")
    with pytest.raises(LocalJobError, match=r"ConfigMap mine, which is not in job\.yaml"):
        reward_source(from_map, [], "job.yaml")


@pytest.mark.parametrize("example", ["quickstart-cpu", "reward-function"])
def test_the_cpu_examples_can_be_compared_with_one_pool(example: str) -> None:
    source = (Path(__file__).parents[2] / "examples" / f"{example}.yaml").read_text()
    [loaded] = load_jobs(source, example).jobs
    assert check_job(override(loaded.job, mode="Colocated"), on_kubernetes=False).findings == ()
