"""A checkpoint of m ranks as one of n: `python -m split_ppo_trainer.reshard FROM TO --ranks actor=2 critic=1`.

FSDP2 keeps every parameter, and every moment of the optimiser, as a DTensor cut along its first dimension into one piece a
rank. So the pieces of all files are put together and cut anew, as torch cuts them: into chunks of ceil(rows ÷ n), the last ones
shorter or empty. Scalars (the optimiser's step count) and the schedule of the learning rate are the same in every file; the
state of the random numbers is the first rank's, with which nothing is drawn that has to differ between ranks. Nothing else
about the training changes: the next step gives the same numbers on the new split.

A process of its own: it holds the whole model and its optimiser in memory, and gives it back when it ends.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

_FILE = re.compile(r"^(model|optim|extra_state)_world_size_(\d+)_rank_(\d+)\.pt$")


class CannotReshard(Exception):
    """The files are not what this can cut anew; the message is for the user."""


def reshard(source: Path, target: Path, ranks: Mapping[str, int]) -> None:
    """Write the checkpoint in `source` to `target`, with so many ranks of each role (`actor`, `critic`)."""
    for entry in sorted(source.rglob("*")):
        to = target / entry.relative_to(source)
        if entry.is_dir():
            to.mkdir(parents=True, exist_ok=True)
        elif not _FILE.match(entry.name):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(entry, to)
    for role, count in ranks.items():
        for kind in ("model", "optim", "extra_state"):
            _reshard_files(source / role, target / role, kind, count)
        config = target / role / "fsdp_config.json"
        if config.exists():
            config.write_text(json.dumps(json.loads(config.read_text()) | {"world_size": count}, indent=4))


def _reshard_files(source: Path, target: Path, kind: str, count: int) -> None:
    found = [(match, path) for path in source.iterdir() if (match := _FILE.match(path.name)) and match[1] == kind]
    files = [path for _, path in sorted(found, key=lambda pair: int(pair[0][3]))]
    if not files:
        return
    whole = merge([torch.load(path, map_location="cpu", weights_only=False) for path in files])
    for rank in range(count):
        torch.save(cut(whole, rank, count), target / f"{kind}_world_size_{count}_rank_{rank}.pt")


class Whole:
    """A tensor put together, and the mesh that its pieces were on."""

    def __init__(self, tensor: torch.Tensor, mesh: DeviceMesh) -> None:
        self.tensor, self.mesh = tensor, mesh


def merge(parts: list[Any]) -> Any:
    """One tree from the same tree of every rank."""
    first = parts[0]
    if isinstance(first, DTensor):
        if len(first.placements) != 1 or first.placements[0] != Shard(0):
            raise CannotReshard(
                f"A parameter is placed as {first.placements}; only FSDP's cut along one mesh is known."
            )
        rows = torch.cat([part._local_tensor for part in parts])
        if rows.shape != first.shape:
            raise CannotReshard(
                f"The ranks' pieces make {tuple(rows.shape)} and the parameter is {tuple(first.shape)}."
            )
        return Whole(rows, first.device_mesh)
    if isinstance(first, dict):
        return type(first)((key, merge([part[key] for part in parts])) for key in first)
    return first


def cut(whole: Any, rank: int, count: int) -> Any:
    """The tree of one rank of `count`."""
    if isinstance(whole, Whole):
        return _piece(whole, rank, count)
    if isinstance(whole, dict):
        return type(whole)((key, cut(value, rank, count)) for key, value in whole.items())
    return whole


def _piece(whole: Whole, rank: int, count: int) -> DTensor:
    tensor = whole.tensor
    rows = -(-tensor.shape[0] // count)
    local = tensor[min(rank * rows, tensor.shape[0]) : min((rank + 1) * rows, tensor.shape[0])].clone()
    mesh = DeviceMesh(
        whole.mesh.device_type,
        torch.arange(count),
        mesh_dim_names=whole.mesh.mesh_dim_names,
        _init_backend=False,
        _rank=rank,
    )
    meta = TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)
    return DTensor(local, DTensorSpec(mesh, (Shard(0),), tensor_meta=meta), requires_grad=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m split_ppo_trainer.reshard", description="Cut a checkpoint anew.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--ranks", nargs="+", required=True, metavar="ROLE=N", help="actor=2 critic=1")
    arguments = parser.parse_args()
    ranks = {role: int(count) for role, count in (pair.split("=") for pair in arguments.ranks)}
    try:
        reshard(arguments.source, arguments.target, ranks)
    except CannotReshard as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
