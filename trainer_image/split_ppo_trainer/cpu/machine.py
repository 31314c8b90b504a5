"""What a machine without GPUs has: its cores, and what two ranks take to exchange a model's parameters, tried at the start.

Two ranks of the run, of one pool if it has as many, gather and scatter over gloo what FSDP gathers and scatters, unit by
unit, a few times. They do so in a process group of their own, so that ranks of different pools can. It takes a second
or two with 30 million parameters, and whatever goes wrong in it costs the run no more than the number.
"""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import ray
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from split_ppo.placement.exchange import Exchange, Machine
from split_ppo.placement.plan import RoleName

Address = tuple[str, int]

ROUNDS = 5
DEADLINE_S = 20.0
_meetings: dict[Address, Any] = {}


def unit_sizes(module: torch.nn.Module) -> list[int]:
    """Numbers in each unit that FSDP gathers as a whole: its own parameters, without those of the units inside it."""
    units = [name for name, part in module.named_modules() if isinstance(part, FSDPModule)]
    sizes = dict.fromkeys(units, 0)
    for name, parameter in module.named_parameters():
        sizes[max((unit for unit in units if name.startswith(unit)), key=len)] += parameter.numel()
    return [size for size in sizes.values() if size]


def look_at_the_machine(groups: Mapping[RoleName, Any]) -> Machine:
    """Given the workers of each role. No exchange if there is one rank in all, and not even its cores if it does not answer."""
    first, *others = {worker._actor_id: worker for group in groups.values() for worker in group.workers}.values()
    try:
        cores = ray.get(first.__ray_call__.remote(count_cores), timeout=DEADLINE_S)
        if not others:
            return Machine(cores)
        models = {role: group.unit_sizes()[0] for role, group in groups.items()}
        address = ray.get(first.__ray_call__.remote(open_meeting), timeout=DEADLINE_S)
        pair = [
            worker.__ray_call__.remote(exchange, address, rank, models)
            for rank, worker in enumerate((first, others[0]))
        ]
        return Machine(cores, ray.get(pair, timeout=2 * DEADLINE_S)[0])
    except ray.exceptions.RayError as problem:
        print(f"What exchanging parameters takes could not be measured; advice assumes it: {problem}", flush=True)
        return Machine()


def count_cores(_: Any) -> int | None:
    """Called in a rank; all of the machine's, whichever of them the rank is pinned to."""
    return os.cpu_count()


def open_meeting(_: Any) -> Address:
    """Called in the first of the two: where they meet."""
    here = ray.util.get_node_ip_address()
    store = dist.TCPStore(here, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=DEADLINE_S))
    _meetings[here, store.port] = store
    return here, store.port


def exchange(_: Any, address: Address, rank: int, models: Mapping[RoleName, Sequence[int]]) -> dict[RoleName, Exchange]:
    """Called in both at the same time."""
    patience = timedelta(seconds=DEADLINE_S)
    store = _meetings.pop(address, None) or dist.TCPStore(*address, is_master=False, timeout=patience)
    group = dist.ProcessGroupGloo(store, rank, 2, patience)
    found = {}
    for role, units in models.items():
        rounds = [_round(group, units) for _ in range(ROUNDS)]
        # The best one: what else is starting on this machine at that time is none of the exchange.
        found[role] = Exchange(*(min(seconds) for seconds in zip(*rounds, strict=True)))
    return found


def _round(group: Any, units: Sequence[int]) -> Exchange:
    """As FSDP does it, with the buffers that it makes anew for each unit and its copies into them and out of them."""
    shards = [torch.ones(size // 2 + 1) for size in units]
    began = time.perf_counter()
    for shard in shards:
        whole = torch.empty(2 * shard.numel())
        group._allgather_base(whole, shard.clone()).wait()
        whole.clone()
    gathered = time.perf_counter()
    for shard in shards:
        gradients = torch.cat([shard, shard])
        group._reduce_scatter_base(torch.empty_like(shard), gradients).wait()
    return Exchange(gather=gathered - began, scatter=time.perf_counter() - gathered)
