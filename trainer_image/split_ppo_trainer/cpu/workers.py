"""The workers of a pool without GPUs: the same as on GPUs, with the process group made first.

verl asks torch for "cpu:gloo,<device>:<backend>"; with device "cpu" that names the CPU twice and torch refuses. verl
makes a group only where there is none, so these make it.
"""

import os
from typing import Any

import torch.distributed as dist
from verl.single_controller.base.decorator import Dispatch, register

import split_ppo_trainer.cpu.engines  # noqa: F401  registers the engines
from split_ppo_trainer.cpu.machine import unit_sizes
from split_ppo_trainer.workers import ActorRolloutWorker, BusyTrainingWorker, CriticWorker, ReferenceWorker


def join_process_group() -> None:
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))


class CpuTrainingWorker(BusyTrainingWorker):
    def __init__(self, config: Any) -> None:
        join_process_group()
        super().__init__(config)


class CpuCriticWorker(CriticWorker):
    def __init__(self, config: Any) -> None:
        join_process_group()
        super().__init__(config)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def unit_sizes(self) -> list[int]:
        return unit_sizes(self.engine.module)


class CpuActorRolloutWorker(ActorRolloutWorker):
    actor_worker_cls = CpuTrainingWorker
    ref_worker_cls = CpuTrainingWorker

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def unit_sizes(self) -> list[int]:
        return unit_sizes(self.actor.engine.module)


class CpuReferenceWorker(ReferenceWorker):
    actor_worker_cls = CpuTrainingWorker
    ref_worker_cls = CpuTrainingWorker
