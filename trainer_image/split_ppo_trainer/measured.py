"""What a step reports, on the step it belongs to: verl's metrics, when each piece began, and how well the pools were used.

With NextGeneration a step is complete only when its critic has reported, one step later; until then the ledger holds it.
"""

from typing import Any

from transfer_queue import KVBatchMeta

from split_ppo_trainer.lane import CriticLane
from split_ppo_trainer.ledger import StepLedger
from split_ppo_trainer.moments import Timings
from split_ppo_trainer.overlap import overlap_efficiency
from split_ppo_trainer.placed import PlacedTrainer
from split_ppo_trainer.pool_load import pool_metrics, usage_metrics
from split_ppo_trainer.progress import PHASES, StepReport

SCORING = "split/reward_model_s"


class MeasuredTrainer(PlacedTrainer):
    """The placed trainer, and what it tells of each step."""

    lane: CriticLane

    @property
    def logger(self) -> Any:
        return self._logger

    @logger.setter
    def logger(self, tracking: Any) -> None:
        self._logger = StepLedger(tracking, self._publish)

    @property
    def timing_raw(self) -> Timings:
        return self._timings

    @timing_raw.setter
    def timing_raw(self, empty: dict[str, float]) -> None:
        """verl begins a step with an empty dict."""
        self._timings = Timings()

    def _publish(self, step: int, metrics: dict[str, Any]) -> None:
        if "training/global_step" not in metrics:
            return  # the validation before the first step
        newest = self.run.checkpoints.newest if self.run.checkpoints else None
        self.run.progress.step(
            StepReport(step, self.total_training_steps, metrics, None if newest is None else str(newest.path))
        )
        if self.run.checkpoints:
            self.run.checkpoints.commit()  # of this step; resumed from, it must not lack its line

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: Any, timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        metrics.update(timing_raw.metrics())
        metrics.update(usage_metrics(self.usage.read()))
        if self.pools.reward_alone and self.config.reward.reward_model.enable:
            metrics[SCORING] = self.seconds_scored()
        if not self.use_critic:
            self._add_shares(metrics)
            return
        metrics["split/critic_wait_s"] = self.lane.traffic.wait_s
        metrics["split/pool_bytes"] = 0 if self.pools.one_pool else self.lane.traffic.bytes
        if self.lane.update_pending:
            self.logger.keep_open(global_steps)
        else:
            self._add_shares(metrics)

    def _add_shares(self, metrics: dict[str, Any]) -> None:
        """What takes the lengths of all pieces to know: how near the step is to its limit, how busy each pool was."""
        found = {name: metrics.get(f"timing_s/{name}") for name in (*PHASES, "save_checkpoint")}
        seconds = {name: float(value) for name, value in found.items() if value is not None}
        scored = {"reward": float(metrics[SCORING])} if SCORING in metrics else {}
        metrics.update(pool_metrics(seconds | scored, self.pools, tokens=metrics.get("perf/total_num_tokens")))
        if not self.use_critic:
            return
        metrics["split/overlap_efficiency"] = overlap_efficiency(
            seconds,
            one_pool=self.pools.one_pool,
            ref_beside_critic=self.pools.ref_beside_critic,
            reward_beside_critic=self.pools.reward == self.pools.critic,
        )

    def _add_late_timing(self, metrics: dict[str, Any]) -> None:
        tokens = metrics.get("perf/total_num_tokens")
        if tokens:
            metrics["timing_per_token_ms/update_critic"] = metrics["timing_s/update_critic"] * 1000 / tokens
        self._add_shares(metrics)
