"""What one run carries around in the task runner: its plan, where it reports, who watches it, where its checkpoints go."""

from collections.abc import Callable
from dataclasses import dataclass

from split_ppo.runplan import RunPlan
from split_ppo_trainer.checkpoints import Checkpoints
from split_ppo_trainer.progress import Progress
from split_ppo_trainer.recommendation import Mover
from split_ppo_trainer.watchdog import Watchdog


@dataclass(frozen=True)
class Run:
    plan: RunPlan
    progress: Progress
    watchdog: Watchdog
    checkpoints: Checkpoints | None
    mover: Mover | None = None

    def enter(self, stage: str, message: str, waiting_for: str, pulse: Callable[[], object] | None = None) -> None:
        """Tell the stage to the world and to the watchdog."""
        self.progress.stage(stage, message)
        self.watchdog.enter(stage, waiting_for, pulse)

    def describe_pools(self) -> str:
        """`ActorRollout on actor (2 GPUs), Critic on critic (1 GPU)`."""
        placement = self.plan.placement
        words = []
        for role, name in placement.roles.items():
            size = placement.pool(name).world_size
            words.append(
                f"{role} on {name} ({size} {'slot' if placement.device == 'CPU' else 'GPU'}{'s' * (size != 1)})"
            )
        return ", ".join(words)
