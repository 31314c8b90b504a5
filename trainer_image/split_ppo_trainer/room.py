"""Whether a checkpoint can fit at all, asked before hours are trained for it.

FSDP writes the weights of the actor and the critic, and for each weight the optimiser's two moments, in the type that
training keeps them in. How many weights there are is written in front of the models' own files. What is counted here is
the least a checkpoint can be: a model that is not on this machine, or not trained as a whole, counts nothing.
"""

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from split_ppo.verl_config import lookup
from split_ppo_trainer.failures import EXIT_BAD_INPUT, RunFailure, bad_input

HEADER_LENGTH = 8  # bytes in front of a safetensors file that say how long its header is


def check_room(settings: Mapping[str, Any], root: Path, *, critic: bool) -> None:
    """Raise where not even one checkpoint fits under `root`."""
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    needed, free = checkpoint_bytes(settings, critic=critic), shutil.disk_usage(there).free
    if needed > free:
        raise RunFailure(
            "DiskFull",
            f"A checkpoint does not fit under {root}: weights and optimiser take at least {needed / 1e6:,.0f} MB, and "
            f"{free / 1e6:,.0f} MB are left. Make room, or name a larger volume.",
            exit_code=EXIT_BAD_INPUT,
        )


def checkpoint_bytes(settings: Mapping[str, Any], *, critic: bool) -> int:
    """The least that one checkpoint takes."""
    actor = _Trained("actor_rollout_ref.actor", "actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.model")
    # A critic's last layer is one number wide, whatever its model's was.
    value = _Trained("critic", "critic.fsdp", "critic.model", without="lm_head")
    return actor.bytes(settings) + (value.bytes(settings) if critic else 0)


@dataclass(frozen=True)
class _Trained:
    """Where verl keeps what there is to know of a model that is trained."""

    role: str
    engine: str
    model: str
    without: str | None = None

    def bytes(self, settings: Mapping[str, Any]) -> int:
        path = lookup(settings, f"{self.model}.path")
        fsdp = str(lookup(settings, f"{self.role}.strategy") or "fsdp").startswith("fsdp")
        if not (path and fsdp) or lookup(settings, f"{self.model}.lora_rank"):
            return 0
        wide = (lookup(settings, f"{self.engine}.model_dtype") or "fp32") in ("fp32", "float32")
        contents = lookup(settings, f"{self.role}.checkpoint.save_contents") or ("model", "optimizer")
        numbers = ("model" in contents) + 2 * ("optimizer" in contents)
        return weights_in(Path(path).expanduser(), without=self.without) * numbers * (4 if wide else 2)


def weights_in(folder: Path, *, without: str | None = None) -> int:
    """How many weights the model in a folder has, leaving out the layers whose name begins so."""
    shapes = [shape for file in folder.glob("*.safetensors") for shape in _shapes(file, without)]
    return sum(math.prod(shape) for shape in shapes)


def _shapes(file: Path, without: str | None) -> list[list[int]]:
    with file.open("rb") as content:
        length = int.from_bytes(content.read(HEADER_LENGTH), "little")
        if length > file.stat().st_size:
            raise bad_input(
                f"{file} is not a whole safetensors file: a download that stopped, or a pointer of Git LFS?"
            )
        header = json.loads(content.read(length))
    tensors = {name: found["shape"] for name, found in header.items() if name != "__metadata__"}
    return [shape for name, shape in tensors.items() if without is None or not name.startswith(without)]
