"""verl's synchronous PPO trainer on separate pools, registered as "split".

What differs from verl: where things run (placed.py), what a step reports (measured.py), the critic's half of a step is
dispatched beside the actor's (overlap.py says how far), a step's rows keep the order of the dataset, and every wait is
watched.
"""

import math
import os
import time
from typing import Any

from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.utils.debug import marked_timer

from split_ppo.placement.plan import RoleName
from split_ppo_trainer import census
from split_ppo_trainer.failures import RunFailure
from split_ppo_trainer.lane import CriticLane, Span, Traffic, Update
from split_ppo_trainer.measured import MeasuredTrainer
from split_ppo_trainer.moments import BEGAN, Timings
from split_ppo_trainer.overlap import Overlap, Turns
from split_ppo_trainer.run import Run


@register_trainer("split")
class SplitTrainer(MeasuredTrainer):
    """PPO with actor and critic on pools of their own."""

    def __init__(self, config: DictConfig, run: Run) -> None:
        super().__init__(config, run)
        self._turns = Turns((Overlap.NONE,)) if self.pools.one_pool else Turns.of(run.plan.overlap, os.environ)
        self._prompt_order: dict[str, int] = {}

    @property
    def level(self) -> Overlap:
        """Of the step under way."""
        return self._turns.at(self.global_steps)

    def _setup(self) -> None:
        super()._setup()
        if self.use_critic:
            self._open_lane()

    def _open_lane(self) -> None:
        critic, rollout = self.config.critic, self.config.actor_rollout_ref.rollout
        rows = critic.ppo_mini_batch_size * rollout.n
        ref_apart = Role.RefPolicy in self.mapping
        self.lane = CriticLane(
            self.critic_wg,
            self.ref_policy_wg if ref_apart else None,
            temperature=rollout.temperature,
            update={
                "global_batch_size": rows,
                "mini_batch_size": rows,
                "epochs": critic.ppo_epochs,
                "seed": critic.data_loader_seed,
                "dataloader_kwargs": {"shuffle": critic.shuffle},
            },
        )
        self.lane.warm_up()

    # The step.

    def on_train_begin(self) -> None:
        self.run.watchdog.expect(census.roll_of_the_run(self.run.plan.placement.pools))
        groups = self.worker_handles()
        known = [handle for handles in groups.values() for handle in handles]
        pools = self.run.plan.placement.pools
        places = census.places(groups, pools)
        engines = census.engine_places(
            groups["RolloutServer"], [place for place in places if place["role"] == "RolloutServer"]
        )
        self.run.progress.placement(places, engines, census.helper_places(known, pools))
        self._look_at_the_machine()
        steps = self.total_training_steps - self.global_steps + 1
        self.run.enter(
            "training", f"Training {steps} steps, overlap {self.level.name.title().replace('_', '')}.", "training"
        )

    def _look_at_the_machine(self) -> None:
        """For the advice on other splits, where it is the machine's cores that the splits share out."""
        if self.config.trainer.device != "cpu":
            return
        from split_ppo_trainer.cpu.machine import look_at_the_machine

        groups: dict[RoleName, Any] = {"ActorRollout": self.actor_rollout_wg}
        if self.use_critic:
            groups["Critic"] = self.critic_wg
        self.run.progress.machine(look_at_the_machine(groups))

    def on_step_begin(self) -> None:
        self._move_if_due()
        self.usage.ask()
        if self.use_critic:
            self.lane.traffic = Traffic()
        buffer, most = self.replay_buffer, 0

        def pulse() -> int:
            """Prompts done. The buffer empties and refills its sets at every look, so only a new maximum is progress."""
            nonlocal most
            most = max(most, sum(len(keys.get("train", ())) for keys in (buffer.finished_keys, buffer.failure_keys)))
            return most

        self.run.watchdog.enter("generation", f"generation of step {self.global_steps}", pulse)

    def _move_if_due(self) -> None:
        """Between two steps, when the one before has left a checkpoint."""
        newest = self.run.checkpoints.newest if self.run.checkpoints else None
        if self.run.mover is not None and newest is not None and newest.step == self.global_steps - 1:
            self.run.mover.look(newest.step)

    def on_sample_end(self) -> None:
        super().on_sample_end()
        self.run.watchdog.enter("training", f"inference and updates of step {self.global_steps}")

    def on_step_end(self) -> None:
        self.run.watchdog.enter("weight_sync", f"weights of step {self.global_steps} to reach the rollout servers")
        super().on_step_end()
        self.run.watchdog.enter("training", f"the end of step {self.global_steps}")

    def _step_once(self, metrics: dict[str, Any], timing_raw: Timings, sample_batch_size: int) -> KVBatchMeta:
        if self.level is Overlap.NONE or not self.use_critic:
            return super()._step_once(metrics, timing_raw, sample_batch_size)
        batch = self._generate(metrics, timing_raw, sample_batch_size)
        batch = self._prepare(batch, metrics, timing_raw)
        with marked_timer("adv", timing_raw, color="brown"):
            batch = self._compute_advantage(batch, metrics=metrics)
        self.lane.submit_update(batch, self.global_steps)
        if self.config.trainer.critic_warmup <= self.global_steps:
            with marked_timer("update_actor", timing_raw, color="red"):
                batch = self._update_actor(batch, metrics=metrics)
        self.lane.join_staging()
        if not self._critic_may_run_on():
            self._settle_update(metrics, timing_raw)
        return batch

    def _generate(self, metrics: dict[str, Any], timing_raw: Timings, sample_batch_size: int) -> KVBatchMeta:
        with marked_timer("gen", timing_raw, color="red"):
            self.on_sample_begin()
            batch, off_policy = self.replay_buffer.sample(
                global_steps=self.global_steps, partition_id="train", batch_size=sample_batch_size
            )
            metrics.update(off_policy)
            batch.extra_info["temperature"] = self.config.actor_rollout_ref.rollout.temperature
            self.on_sample_end()
        if self.reward_loop_manager.reward_loop_worker_handles is None:
            if self.pools.reward == self.pools.critic:
                self._settle_update(metrics, timing_raw)  # the reward model is about to take the critic's GPUs
            with marked_timer("reward", timing_raw, color="yellow"):
                batch = self._compute_reward_colocate(batch, metrics=metrics)
        return self._balance_batch(batch, metrics=metrics)

    def _prepare(self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: Timings) -> KVBatchMeta:
        together = self.level >= Overlap.INFERENCE
        ref_apart = self.use_reference_policy and Role.RefPolicy in self.mapping
        if together:
            if ref_apart:
                self.lane.submit_ref(batch)
            self.lane.submit_values(batch)
        with marked_timer("old_log_prob", timing_raw, color="blue"):
            batch = self._compute_old_log_prob(batch, metrics=metrics)
        if self.use_reference_policy and not (together and ref_apart):
            with marked_timer("ref", timing_raw, color="olive"):
                batch = self._compute_ref_log_prob(batch, metrics=metrics)
        if not together:
            with marked_timer("values", timing_raw, color="cyan"):
                return self._compute_values(batch, metrics=metrics)
        if ref_apart:
            _put(timing_raw, "ref", self.lane.join_ref())
        _put(timing_raw, "values", self.lane.join_values())
        self._settle_update(metrics, timing_raw)  # of the step before: it ran before the values did
        return batch

    def _critic_may_run_on(self) -> bool:
        """Behind this step's end: not when something is about to read the critic, or the run ends here."""
        step, trainer = self.global_steps, self.config.trainer
        last = step >= self.total_training_steps or step >= self.steps_per_epoch * trainer.total_epochs
        due = any(every > 0 and step % every == 0 for every in (trainer.save_freq, trainer.test_freq))
        runs_on = {self.level, self._turns.at(step + 1)} == {Overlap.NEXT_GENERATION}
        return runs_on and not last and not due and trainer.critic_warmup <= step

    def _settle_update(self, metrics: dict[str, Any], timing_raw: Timings) -> None:
        update = self.lane.join_update()
        if update is None:
            return
        self._refuse_nonfinite(update.metrics, update.step)
        if update.step == self.global_steps:
            metrics.update(update.metrics)
            _put(timing_raw, "update_critic", update.span)
        else:
            self.logger.complete(update.step, _late_metrics(update), self._add_late_timing)

    # verl's pieces, timed and checked.

    def _compute_values(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self.lane.timed():
            return super()._compute_values(batch, metrics)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self.lane.timed():
            batch = super()._update_critic(batch, metrics)
        self._refuse_nonfinite(metrics, self.global_steps)
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._update_actor(batch, metrics)
        self._refuse_nonfinite(metrics, self.global_steps)
        return batch

    def _refuse_nonfinite(self, metrics: dict[str, Any], step: int) -> None:
        for name, value in metrics.items():
            bad = (name.endswith("loss") and not math.isfinite(value)) or (
                name.endswith("grad_norm") and math.isnan(value)
            )
            if bad:
                newest = self.run.checkpoints.newest if self.run.checkpoints else None
                resume = f" The newest complete checkpoint is {newest.path}." if newest else ""
                raise RunFailure(
                    "NonFiniteLoss",
                    f"{name} is {float(value)} at step {step}. Look at that step's rewards and at the learning rate.{resume}",
                )

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        for uid in batch["uid"]:
            self._prompt_order[str(uid)] = len(self._prompt_order)
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics: Any, *args: Any, **kwargs: Any) -> KVBatchMeta:
        """Rows arrive in the order they finished, which no seed decides; put them in the order of the dataset first."""
        self._report_failed_prompts(metrics)

        def position(row: int) -> tuple[int, int, int]:
            uid, session, index = batch.keys[row].rsplit("_", 2)
            return self._prompt_order.get(uid, 0), int(session), int(index)

        batch.reorder(sorted(range(len(batch)), key=position))
        self._prompt_order.clear()
        return super()._balance_batch(batch, metrics, *args, **kwargs)

    def _report_failed_prompts(self, metrics: dict[str, Any]) -> None:
        failed = len(self.replay_buffer.failure_keys.get("train", ()))
        metrics["split/failed_prompts"] = failed
        if failed:
            why = self.agent_loop_manager.first_failure()
            self.run.progress.stage("training", f"{failed} prompts of step {self.global_steps} failed: {why}")

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """verl looks at the actor's ranks only."""
        sizes = self.lane.data_parallel_sizes() if self.use_critic else []
        return math.lcm(super()._get_required_batch_multiple(dp_size), *sizes)

    # Checkpoints and validation.

    def _save_checkpoint(self) -> None:
        checkpoints, step = self.run.checkpoints, self.global_steps
        assert checkpoints is not None
        self.run.enter("checkpoint", f"Writing the checkpoint of step {step}.", f"the checkpoint of step {step}")
        start = time.perf_counter()
        try:
            staging = checkpoints.staging(step)
            self.config.trainer.default_local_dir = str(staging)
            super()._save_checkpoint()
            written = checkpoints.prepare(staging, step)
        except Exception as problem:
            raise checkpoints.failure(problem, step) from problem
        finally:
            self.config.trainer.default_local_dir = str(checkpoints.root)
        took = time.perf_counter() - start
        self.run.enter("training", f"Wrote {written.path} in {took:.1f} s.", f"the end of step {step}")

    def _validate(self) -> dict[str, float]:
        self.run.enter("validating", f"Validating after step {self.global_steps}.", "validation")
        metrics: dict[str, float] = super()._validate()
        self.run.enter("training", "Validation done.", "training")
        return metrics


def _late_metrics(update: Update) -> dict[str, Any]:
    return {
        **update.metrics,
        "timing_s/update_critic": update.span.seconds,
        f"{BEGAN}update_critic": update.span.began,
    }


def _put(timings: Timings, name: str, span: Span) -> None:
    timings.put(name, span.seconds, span.began)
