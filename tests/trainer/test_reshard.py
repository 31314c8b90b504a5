"""A checkpoint of m ranks as one of n."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer's environment: make install-trainer")

from clusters import training_cluster  # noqa: E402
from commands import Trainer  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from plans import tiny_plan  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402

from split_ppo_trainer.reshard import Whole, cut, merge  # noqa: E402

pytestmark = pytest.mark.trainer
SAME = (
    "critic/score/mean",
    "actor/entropy",
    "actor/grad_norm",
    "critic/values/mean",
    "critic/grad_norm",
    "critic/vf_loss",
)


def tree(rows: int) -> dict[str, Any]:
    mesh = DeviceMesh("cpu", torch.arange(1), mesh_dim_names=("fsdp",), _init_backend=False, _rank=0)
    weight = torch.arange(rows * 3, dtype=torch.float32).reshape(rows, 3)
    return OrderedDict(
        weight=Whole(weight, mesh), state={0: {"step": torch.tensor(8.0), "exp_avg": Whole(weight * 2, mesh)}}
    )


@settings(deadline=None)
@given(rows=st.integers(1, 40), ranks=st.integers(1, 8))
def test_pieces_are_cut_as_torch_cuts_them_and_make_the_whole_again(rows: int, ranks: int) -> None:
    whole = tree(rows)
    parts = [cut(whole, rank, ranks) for rank in range(ranks)]
    chunks = list(whole["weight"].tensor.chunk(ranks))
    for rank, part in enumerate(parts):
        expected = chunks[rank] if rank < len(chunks) else torch.empty(0, 3)
        assert torch.equal(part["weight"].to_local(), expected)
        assert part["weight"].shape == (rows, 3)
        assert part["state"][0]["step"] == 8
    again = merge(parts)
    assert torch.equal(again["weight"].tensor, whole["weight"].tensor)
    assert torch.equal(again["state"][0]["exp_avg"].tensor, whole["state"][0]["exp_avg"].tensor)


@pytest.mark.slow
def test_a_run_goes_on_with_the_same_numbers_on_another_split(tmp_path: Path) -> None:
    # One mini batch: several would be made of other rows with another number of ranks.
    whole_batch = {"actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 8}}, "critic": {"ppo_mini_batch_size": 8}}
    common = {
        "overlap": "NextGeneration",
        "steps": 5,
        "storage": tmp_path / "ckpt",
        "every_steps": 3,
        "config": whole_batch,
    }
    before = tiny_plan(layout="split", **common)
    with training_cluster(before) as cluster:
        first = Trainer(before, tmp_path / "first", address=cluster.address)
        assert first.wait() == 0, first.last_line()
    after = tiny_plan(layout="uneven", **common)
    with training_cluster(after) as cluster:
        second = Trainer(
            after, tmp_path / "second", "--resume", str(tmp_path / "ckpt/global_step_3"), address=cluster.address
        )
        assert second.wait() == 0, second.last_line()
    unmoved, moved = first.metrics(), second.metrics()
    assert list(moved) == [4, 5]
    for step in (4, 5):
        for name in SAME:
            assert moved[step][name] == pytest.approx(unmoved[step][name], rel=1e-3, abs=1e-5), (step, name)
