"""Checkpoints on disk: whole or not there, the newest few kept, the right one chosen."""

import errno
import re
from pathlib import Path

import pytest

from split_ppo_trainer.checkpoints import MANIFEST, Checkpoints, choose, find_all, read, remove_leftovers
from split_ppo_trainer.failures import RunFailure

RANKS = {"actor": 2, "critic": 1}


def write(store: Checkpoints, step: int) -> Path:
    """What verl writes, shortened."""
    staging = store.staging(step)
    for name in (
        "actor/model_world_size_2_rank_0.pt",
        "actor/model_world_size_2_rank_1.pt",
        "critic/model.pt",
        "data.pt",
    ):
        file = staging / f"global_step_{step}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * (step + 10))
    (staging / "latest_checkpointed_iteration.txt").write_text(str(step))
    return staging


def save(store: Checkpoints, step: int) -> None:
    store.prepare(write(store, step), step)
    store.commit()


@pytest.fixture
def store(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "ckpt", keep=2, ranks=RANKS)


def test_a_checkpoint_appears_at_once_and_whole(store: Checkpoints) -> None:
    staging = write(store, 1)
    written = store.prepare(staging, 1)
    assert find_all(store.root) == [], "its step is not on record yet"
    store.commit()
    assert written == store.newest == read(store.root / "global_step_1")
    assert [p.name for p in store.root.iterdir()] == ["global_step_1"]


def test_the_newest_few_are_kept(store: Checkpoints) -> None:
    for step in (1, 2, 9, 10):
        save(store, step)
    assert [c.step for c in find_all(store.root)] == [9, 10]
    assert sorted(p.name for p in store.root.iterdir()) == ["global_step_10", "global_step_9"]


@pytest.mark.parametrize("damage", ["no manifest", "file missing", "file cut short", "manifest cut short"])
def test_half_of_one_is_never_resumed_from(store: Checkpoints, damage: str) -> None:
    for step in (1, 2):
        save(store, step)
    newest = store.root / "global_step_2"
    match damage:
        case "no manifest":
            (newest / MANIFEST).unlink()
        case "file missing":
            (newest / "critic/model.pt").unlink()
        case "file cut short":
            (newest / "actor/model_world_size_2_rank_1.pt").write_bytes(b"x")
        case "manifest cut short":
            (newest / MANIFEST).write_text('{"step": 2, "ra')
    chosen = choose(store.root, "latest", ranks=RANKS)
    assert chosen is not None
    assert chosen.step == 1
    with pytest.raises(RunFailure, match="not a complete checkpoint"):
        choose(store.root, str(newest), ranks=RANKS)


def test_what_a_killed_run_left_is_ignored_and_removed(store: Checkpoints) -> None:
    save(store, 1)
    write(store, 2)
    chosen = choose(store.root, "latest", ranks=RANKS)
    assert chosen is not None
    assert chosen.step == 1
    remove_leftovers(store.root)
    assert [p.name for p in store.root.iterdir()] == ["global_step_1"]


def test_a_step_done_again_replaces_its_checkpoint(store: Checkpoints) -> None:
    save(store, 1)
    (store.root / "global_step_1" / "data.pt").write_bytes(b"older")
    save(store, 1)
    assert [checkpoint.step for checkpoint in find_all(store.root)] == [1]
    assert (store.root / "global_step_1" / "data.pt").read_bytes() == b"x" * 11


def test_another_split_is_taken_and_other_roles_are_refused(store: Checkpoints) -> None:
    save(store, 1)
    taken = choose(store.root, "latest", ranks={"actor": 1, "critic": 1})
    assert taken is not None
    assert taken.ranks == RANKS
    with pytest.raises(RunFailure) as refused:
        choose(store.root, "latest", ranks={"actor": 2})
    assert "written with actor on 2 GPUs, critic on 1 GPU; this plan has actor on 2 GPUs" in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_fresh_run_does_not_mix_with_an_old_one(store: Checkpoints) -> None:
    assert choose(store.root, None, ranks=RANKS) is None
    assert choose(store.root, "latest", ranks=RANKS) is None
    save(store, 1)
    with pytest.raises(RunFailure, match="add --resume"):
        choose(store.root, None, ranks=RANKS)


def test_a_full_disk_says_how_much_is_left_and_leaves_the_last_one(store: Checkpoints) -> None:
    save(store, 1)
    write(store, 2)
    failure = store.failure(OSError(errno.ENOSPC, "No space left on device"), 2)
    assert failure.reason == "DiskFull"
    assert re.search(r"does not fit under .*\(\d+ MB left\)", failure.message)
    assert "global_step_1" in failure.message
    assert [p.name for p in store.root.iterdir()] == ["global_step_1"]
