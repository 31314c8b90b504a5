"""The critic's half of a step: submitted now, joined where its numbers are needed.

Calls to the critic's workers run in the order they were submitted, so a lane never has to wait for one call before it
submits the next. What it must wait for is the queue: verl clears a step's data from TransferQueue at the end of the
step, and a worker that reads later finds nothing and trains on nothing. So an update is two calls, `stage` (the workers
take the data) and `train_staged`; the step ends only after `stage` has, with every row accounted for.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.protocol import DataProtoFuture
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.utils.padding import response_from_nested

from split_ppo_trainer.failures import RunFailure
from split_ppo_trainer.workers import REF_LOG_PROBS, Lap


@dataclass(frozen=True)
class Span:
    """When a piece of the critic's half began, on its worker's clock, and how long it took."""

    began: float
    seconds: float


@dataclass(frozen=True)
class Update:
    """A finished critic update."""

    step: int
    metrics: dict[str, Any]
    span: Span


@dataclass
class _Pending:
    """A submitted call, and the lap around it."""

    batch: KVBatchMeta
    futures: list[Any]
    lap: list[Any]


@dataclass
class _PendingUpdate:
    step: int
    rows: int
    staged: list[Any]
    trained: DataProtoFuture
    lap: list[Any]


class Traffic:
    """What the step has cost so far in waiting and in bytes between the pools."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.bytes = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wait_s += time.perf_counter() - start

    def add(self, laps: list[Lap]) -> Span:
        """Count the laps' bytes; the first rank's beginning, the seconds of the slowest."""
        self.bytes += sum(lap["bytes_in"] + lap["bytes_out"] for lap in laps)
        return Span(min(lap["began"] for lap in laps), max(lap["seconds"] for lap in laps))


class CriticLane:
    """Calls to the critic's pool, in flight."""

    def __init__(self, critic: Any, ref: Any | None, *, temperature: float, update: Mapping[str, Any]) -> None:
        self._critic, self._ref, self._temperature, self._settings = critic, ref, temperature, dict(update)
        self._values: _Pending | None = None
        self._ref_pass: _Pending | None = None
        self._update: _PendingUpdate | None = None
        self.traffic = Traffic()

    @property
    def update_pending(self) -> bool:
        return self._update is not None

    def warm_up(self) -> None:
        """Ask the workers for their ranks now: verl asks behind the first call and waits for that call with it."""
        for group, mesh in ((self._critic, "train"), (self._ref, "ref")):
            if group is not None:
                group._dispatch_info[mesh] = group._query_dispatch_info(mesh)
                group._collect_info[mesh] = group._query_collect_info(mesh)

    def data_parallel_sizes(self) -> list[int]:
        """Ranks each group splits a batch over."""
        sizes = [max(self._critic._dispatch_info["train"]) + 1]
        if self._ref is not None:
            sizes.append(max(self._ref._dispatch_info["ref"]) + 1)
        return sizes

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around verl's own blocking calls to the critic: the wait and the bytes, as everywhere else."""
        self._critic.start_lap()
        with self.traffic.waiting():
            yield
        self.traffic.add(ray.get(self._critic.end_lap()))

    def submit_values(self, batch: KVBatchMeta) -> None:
        meta = self._meta(batch, compute_loss=False)
        self._critic.start_lap()
        futures = self._critic.infer_batch(meta).futures
        self._values = _Pending(meta, futures, self._critic.end_lap())

    def submit_ref(self, batch: KVBatchMeta) -> None:
        assert self._ref is not None
        meta = self._meta(batch, compute_loss=False, calculate_entropy=False)
        self._ref.start_lap()
        futures = self._ref.submit_ref_log_prob(meta).futures
        self._ref_pass = _Pending(meta, futures, self._ref.end_lap())

    def join_values(self) -> Span:
        """Values are in the queue, response tokens only, as verl leaves them."""
        pending, self._values = self._values, None
        return self._join_inference(pending, read="values", write="values")

    def join_ref(self) -> Span:
        """The same for reference log-probs."""
        pending, self._ref_pass = self._ref_pass, None
        return self._join_inference(pending, read=REF_LOG_PROBS, write="ref_log_prob")

    def _join_inference(self, pending: _Pending | None, *, read: str, write: str) -> Span:
        assert pending is not None
        with self.traffic.waiting():
            ray.get(pending.futures)
            span = self.traffic.add(ray.get(pending.lap))
        start = time.perf_counter()
        keys, partition = pending.batch.keys, pending.batch.partition_id
        data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=[read, "response_mask"])
        data[write] = response_from_nested(data.pop(read), data["response_mask"])
        tq.kv_batch_put(keys=keys, partition_id=partition, fields=data.select(write))
        return Span(span.began, span.seconds + time.perf_counter() - start)

    def submit_update(self, batch: KVBatchMeta, step: int) -> None:
        assert self._update is None, "the update before was never joined"
        meta = self._meta(batch, **self._settings)
        self._critic.start_lap()
        staged = self._critic.stage(meta).futures
        trained = self._critic.train_staged()
        collects = self._critic._collect_info["train"]
        trained = [future for future, collect in zip(trained, collects, strict=True) if collect]
        self._update = _PendingUpdate(step, len(meta), staged, DataProtoFuture.concat(trained), self._critic.end_lap())

    def join_staging(self) -> None:
        """The workers hold every row of the batch; the queue may be cleared."""
        assert self._update is not None
        with self.traffic.waiting():
            shares = ray.get(self._update.staged)
        rows = sum(share["rows"] for share in shares)
        self.traffic.bytes += sum(share["bytes"] for share in shares)
        if rows != self._update.rows:
            raise RunFailure(
                "BatchLost",
                f"The critic got {rows} of the {self._update.rows} rows of step {self._update.step}; the queue lost the rest.",
            )

    def join_update(self) -> Update | None:
        """The update in flight, finished; None when there is none."""
        pending, self._update = self._update, None
        if pending is None:
            return None
        with self.traffic.waiting():
            output = pending.trained.get()
            span = self.traffic.add(ray.get(pending.lap))
        metrics = rename_dict(output["metrics"], "critic/")
        metrics["perf/mfu/critic"] = metrics.pop("critic/mfu")
        return Update(pending.step, reduce_metrics(metrics), span)

    def _meta(self, batch: KVBatchMeta, **extra: Any) -> KVBatchMeta:
        """A handle of the batch of its own: verl writes each call's settings into the one it is given."""
        return KVBatchMeta(
            keys=list(batch.keys),
            tags=batch.tags,
            partition_id=batch.partition_id,
            fields=batch.fields,
            extra_info={**batch.extra_info, "temperature": self._temperature, **extra},
        )
