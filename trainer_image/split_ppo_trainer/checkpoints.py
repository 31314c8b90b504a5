"""Checkpoints that are whole or not there.

verl writes a checkpoint file by file into its final folder. Here it writes into `.saving-…` beside it; when every
worker is done, a manifest with the step, the split and the size of every file is added; once the step itself is on
record, one rename makes it `global_step_N`. So a folder of that name is complete, actor and critic are of the same step, no
step before it is missing from metrics.jsonl, and what a crash leaves behind is a `.saving-…` that the next run removes.

FSDP's files are per rank. Where a checkpoint is resumed on another split, with other numbers of ranks, they are cut anew first
(reshard.py), into `.resharded-…` beside it, which the next run removes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from split_ppo_trainer.failures import RunFailure, bad_input, first_line, is_disk_full

MANIFEST = "split_ppo.json"
_FOLDER = re.compile(r"^global_step_(\d+)$")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    step: int
    ranks: Mapping[str, int]


@dataclass(frozen=True)
class Manifest:
    """What makes a folder a checkpoint."""

    step: int
    ranks: dict[str, int]
    files: dict[str, int]


class Checkpoints:
    """The checkpoints of one run, under one folder."""

    def __init__(self, root: Path, *, keep: int, ranks: Mapping[str, int]) -> None:
        self.root, self._keep, self._ranks = root, keep, dict(ranks)
        self.newest: Checkpoint | None = None
        self._prepared: Path | None = None

    def staging(self, step: int) -> Path:
        """A fresh folder to write step `step` into; verl adds `global_step_N` to it."""
        folder = self.root / f".saving-{step}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def prepare(self, staging: Path, step: int) -> Checkpoint:
        """Complete what was written: all but the name."""
        written = staging / f"global_step_{step}"
        files = {str(p.relative_to(written)): p.stat().st_size for p in sorted(written.rglob("*")) if p.is_file()}
        manifest = Manifest(step, self._ranks, files)
        _write_durably(written / MANIFEST, json.dumps(asdict(manifest), indent=1))
        for folder in {p.parent for p in written.rglob("*")}:
            _sync(folder)
        self.newest = Checkpoint(self.root / written.name, step, self._ranks)
        self._prepared = written
        return self.newest

    def commit(self) -> None:
        """Make what was prepared a checkpoint, then drop the oldest beyond `keep`."""
        if self._prepared is None or self.newest is None:
            return
        if self.newest.path.exists():  # of a run that was resumed from an older one
            self._remove(self.newest)
        self._prepared.rename(self.newest.path)
        _sync(self.root)
        shutil.rmtree(self._prepared.parent, ignore_errors=True)
        self._prepared = None
        self._prune()

    def failure(self, error: BaseException, step: int) -> RunFailure:
        """The sentence for a checkpoint that could not be written. What was written of it is removed."""
        free = shutil.disk_usage(self.root).free / 1e6
        shutil.rmtree(self.root / f".saving-{step}", ignore_errors=True)
        newest = f"the newest complete one is {self.newest.path}" if self.newest else "there is no complete one yet"
        if is_disk_full(error):
            return RunFailure(
                "DiskFull",
                f"The checkpoint of step {step} does not fit under {self.root} ({free:.0f} MB left); {newest}. "
                "Make room or lower storage.keep, then resume.",
            )
        return RunFailure(
            "CheckpointFailed", f"The checkpoint of step {step} could not be written ({first_line(error)}); {newest}."
        )

    def _prune(self) -> None:
        complete = find_all(self.root)
        for old in complete[: max(len(complete) - self._keep, 0)]:
            self._remove(old)

    def _remove(self, old: Checkpoint) -> None:
        # Renamed first: a removal that stops half-way must not leave a folder that looks complete.
        doomed = self.root / f".removing-{old.step}"
        shutil.rmtree(doomed, ignore_errors=True)
        old.path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def find_all(root: Path) -> list[Checkpoint]:
    """Complete checkpoints under `root`, oldest first."""
    if not root.is_dir():
        return []
    found = [read(folder) for folder in root.iterdir() if _FOLDER.match(folder.name)]
    return sorted((c for c in found if c is not None), key=lambda c: c.step)


def read(folder: Path) -> Checkpoint | None:
    """The checkpoint in a folder, or None when it is not whole: no manifest, or a file missing or of another size."""
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    for name, size in manifest.files.items():
        try:
            if (folder / name).stat().st_size != size:
                return None
        except OSError:
            return None
    return Checkpoint(folder, manifest.step, manifest.ranks)


def remove_leftovers(root: Path) -> None:
    """What a killed run was writing or removing, and what an earlier one had cut anew to start from."""
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name.startswith((".saving-", ".removing-", ".resharded-")):
                shutil.rmtree(folder, ignore_errors=True)


def choose(root: Path | None, resume: str | None, *, ranks: Mapping[str, int]) -> Checkpoint | None:
    """The checkpoint to start from: None to start afresh. `resume` is None, "latest" or a folder."""
    if resume is None:
        existing = find_all(root) if root else []
        if existing:
            raise bad_input(
                f"{existing[-1].path} is there from an earlier run; add --resume to continue it, or name another folder "
                "in storage.path."
            )
        return None
    if resume == "latest":
        if root is None:
            raise bad_input("--resume needs storage.path in the plan: there is no folder to look for checkpoints in.")
        complete = find_all(root)
        chosen = complete[-1] if complete else None
    else:
        chosen = read(Path(resume))
        if chosen is None:
            raise bad_input(f"{resume} is not a complete checkpoint: {MANIFEST} is missing or a file it lists is.")
    if chosen is not None and set(chosen.ranks) != set(ranks):
        raise bad_input(
            f"{chosen.path} was written with {_split(chosen.ranks)}; this plan has {_split(ranks)}: one of them trains "
            "something that the other does not. Start afresh in another folder."
        )
    return chosen


def for_ranks(checkpoint: Checkpoint, ranks: Mapping[str, int]) -> Checkpoint:
    """The checkpoint for a split with other numbers of ranks: itself if they are the same, else a copy cut anew."""
    if dict(checkpoint.ranks) == dict(ranks):
        return checkpoint
    target = checkpoint.path.parent / f".resharded-{checkpoint.step}" / checkpoint.path.name
    shutil.rmtree(target.parent, ignore_errors=True)
    counts = [f"{role}={count}" for role, count in ranks.items()]
    command = [sys.executable, "-m", "split_ppo_trainer.reshard", str(checkpoint.path), str(target), "--ranks", *counts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise RunFailure(
            "CannotReshard",
            f"{checkpoint.path} was written with {_split(checkpoint.ranks)} and could not be cut anew for {_split(ranks)}: {why}",
        )
    return Checkpoint(target, checkpoint.step, dict(ranks))


def _split(ranks: Mapping[str, int]) -> str:
    return ", ".join(f"{role} on {count} GPU{'s' if count != 1 else ''}" for role, count in ranks.items())


def _write_durably(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
