"""verl's workers with what a split step needs of them: a staged critic update, a reference pass that can run beside the
actor's, and clocks that tell how long a worker was really busy.

The driver cannot time what it does not wait for. Calls to a worker run in the order they were sent, so a `start_lap`
before and an `end_lap` behind a call measure that call on the worker's own clock, its reading from and writing to
TransferQueue included.

Ray keeps that order only for actors without coroutines: one `async def` among the methods of the critic's process and
a call without arguments overtakes one whose arguments are still on their way. So nothing here is asynchronous.
"""

import os
import time
from typing import Any, TypedDict

import torch
from tensordict import TensorDict
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from split_ppo_trainer.busy import PROCESS
from split_ppo_trainer.sockets import own_handle

REF_LOG_PROBS = "ref_log_probs"


class Lap(TypedDict):
    """What one worker did between `start_lap` and `end_lap`, and when it began (seconds since 1970)."""

    began: float
    seconds: float
    bytes_in: int
    bytes_out: int


class Staged(TypedDict):
    """What one worker holds for its next update."""

    rows: int
    bytes: int


class LapClock:
    """Busy seconds and bytes of the calls between two marks."""

    def __init__(self) -> None:
        self._began, self._since = time.time(), time.perf_counter()
        self._bytes_in = self._bytes_out = 0

    def start(self) -> None:
        self.__init__()  # type: ignore[misc]

    def count(self, *, read: TensorDict | None = None, written: TensorDict | None = None) -> None:
        self._bytes_in += tensor_bytes(read)
        self._bytes_out += tensor_bytes(written)

    def end(self) -> Lap:
        seconds = time.perf_counter() - self._since
        return Lap(began=self._began, seconds=seconds, bytes_in=self._bytes_in, bytes_out=self._bytes_out)


def tensor_bytes(data: TensorDict | None) -> int:
    """Bytes of the tensors in `data`; ragged ones count what they hold, not what padding would make of them."""
    if data is None:
        return 0
    total = 0
    for value in data.values():
        if isinstance(value, torch.Tensor):
            dense = value.values() if value.is_nested else value
            total += dense.numel() * dense.element_size()
    return total


class BusyTrainingWorker(TrainingWorker):
    """verl's, in a process that knows how long it had work."""

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def infer_batch(self, data: TensorDict) -> TensorDict:
        with PROCESS.working():
            return super().infer_batch(data)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def train_mini_batch(self, data: TensorDict) -> TensorDict:
        with PROCESS.working():
            return super().train_mini_batch(data)


class CriticWorker(BusyTrainingWorker):
    """The critic on its own pool."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._clock = LapClock()
        self._staged: TensorDict | None = None

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def reset(self) -> None:
        # The value head has no weights in the model's files: without this every run starts from another one.
        torch.manual_seed(self.engine_config.seed)
        super().reset()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def start_lap(self) -> None:
        self._clock.start()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def end_lap(self) -> Lap:
        return self._clock.end()

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def infer_batch(self, data: TensorDict) -> TensorDict:
        self._clock.count(read=data)
        output = super().infer_batch(data)
        self._clock.count(written=output)
        return output

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def train_mini_batch(self, data: TensorDict) -> TensorDict:
        self._clock.count(read=data)
        return super().train_mini_batch(data)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def stage(self, data: TensorDict) -> Staged:
        """Keep this rank's share of the batch. Once this has returned, the queue may be cleared."""
        self._staged = data
        return Staged(rows=data.shape[0], bytes=tensor_bytes(data))

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def train_staged(self) -> TensorDict:
        """Update on what was staged, with the settings staged with it."""
        data, self._staged = self._staged, None
        if data is None:
            raise RuntimeError("train_staged was called and nothing was staged; call stage first.")
        return BusyTrainingWorker.train_mini_batch(self, data)


class ActorRolloutWorker(ActorRolloutRefWorker):
    """The actor with its rollout, without a reference policy of its own.

    verl builds a reference policy apart from the actor only when the actor's role is "actor", and such an actor has no rollout.
    The trainer uses that role to get the separate reference policy; the rollout is put back here.
    """

    actor_worker_cls = ref_worker_cls = BusyTrainingWorker

    def __init__(self, config: Any, role: str, distillation_config: Any = None, **kwargs: Any) -> None:
        role = "actor_rollout" if role == "actor" else role
        super().__init__(config=config, role=role, distillation_config=distillation_config, **kwargs)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        super().init_model()
        if hasattr(self.rollout, "zmq_handle"):  # vLLM's; its worker does the same (vllm_extension)
            self.rollout.zmq_handle = own_handle(self.rollout.zmq_handle, os.environ)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> None:
        with PROCESS.working():
            await super().update_weights(global_steps=global_steps, mode=mode)


class ReferenceWorker(ActorRolloutRefWorker):
    """The reference policy on a pool of its own or the critic's."""

    actor_worker_cls = ref_worker_cls = BusyTrainingWorker

    def __init__(self, config: Any, role: str, **kwargs: Any) -> None:
        super().__init__(config=config, role=role, **kwargs)
        self._clock = LapClock()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def start_lap(self) -> None:
        self._clock.start()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def end_lap(self) -> Lap:
        return self._clock.end()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> None:
        """verl's is a coroutine, and this worker shares the critic's process."""
        raise RuntimeError("A reference policy has no rollout to send weights to.")

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="ref"), blocking=False)
    def submit_ref_log_prob(self, data: TensorDict) -> TensorDict:
        """Reference log-probs under a name of their own: the actor's pass, running at the same time, writes `log_probs`."""
        self._clock.count(read=data)
        output = self.compute_ref_log_prob(data)
        if output is None:
            return None
        output = output.rename_key_("log_probs", REF_LOG_PROBS).select(REF_LOG_PROBS)
        self._clock.count(written=output)
        return output
