"""Folders of runs as the trainer writes them, with steps of known lengths laid out as each overlap level would."""

from pathlib import Path
from typing import Any

from builders import make_job, pools
from split_ppo.placement.checks import check_job
from split_ppo.runplan import RunPlan, resolve
from split_ppo_trainer.pool_load import WorkerUse, usage_metrics
from split_ppo_trainer.progress import JsonlFiles, StepReport

# Seconds on one GPU each; update_critic is as long as the actor's whole rest.
SECONDS = {"gen": 4.0, "old_log_prob": 1.0, "values": 1.0, "adv": 0.0, "update_actor": 3.0, "update_critic": 3.0,
           "update_weights": 0.5}  # fmt: skip
START = 1_700_000_000.0


def run_plan(
    *, actor: int = 1, critic: int = 1, overlap: str = "None", batch: int = 64, device: str = "GPU", **spec: Any
) -> RunPlan:
    """A plan; without a critic pool it is Colocated."""
    placed = pools(actor, critic, device=device) if critic else pools(actor, 0, mode="Colocated", device=device)
    training = {"batchSize": batch, "miniBatchSize": batch, "microBatchSizePerGPU": 1}
    job = make_job({**placed, "overlap": overlap, "training": training, **spec}, name="job")
    placement = check_job(job, on_kubernetes=False)
    assert not placement.findings, placement.findings
    return resolve(job, placement)


def write_run(
    folder: Path,
    plan: RunPlan,
    *,
    steps: int = 8,
    seconds: dict[str, float] | None = None,
    jitter: float = 0.0,
    slow_first: float = 30.0,
    moments: bool = True,
) -> Path:
    """plan.json and metrics.jsonl. Odd steps take `jitter` longer to generate, the first one `slow_first`."""
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(plan.to_json())
    files = JsonlFiles(folder)
    clock, critic_free = START, START
    for number in range(1, steps + 1):
        lasting = dict(seconds or SECONDS)
        lasting["gen"] += jitter * (number % 2) + slow_first * (number == 1)
        began, end, critic_free = lay_out(lasting, plan, clock, critic_free)
        metrics: dict[str, Any] = {f"timing_s/{name}": took for name, took in lasting.items()}
        metrics |= {"timing_s/step": end - clock, "critic/score/mean": number / steps, "split/overlap_efficiency": 0.9}
        rank = WorkerUse(0.75, 1_500_000_000)
        metrics |= usage_metrics(
            {pool.name: {f"rank-{n}": rank for n in range(pool.world_size)} for pool in plan.placement.pools}
        )
        if moments:
            metrics |= {f"split/began/{name}": moment for name, moment in began.items()} | {"split/began/step": clock}
        files.step(StepReport(number, steps, metrics, None, time=end))
        clock = end
    return folder


def lay_out(
    lasting: dict[str, float], plan: RunPlan, clock: float, critic_free: float
) -> tuple[dict[str, float], float, float]:
    """When each piece begins, when the step ends, and when the critic is free again."""
    level = "None" if plan.placement.mode == "Colocated" else plan.overlap
    began: dict[str, float] = {"gen": clock}
    now = clock + lasting["gen"]
    began["old_log_prob"] = now
    now += lasting["old_log_prob"]
    if level in ("Inference", "NextGeneration"):
        began["values"] = max(began["old_log_prob"], critic_free)
        now = max(now, began["values"] + lasting["values"])
    else:
        began["values"] = now
        now += lasting["values"]
    began["adv"] = now
    now += lasting["adv"]
    began["update_critic"] = now
    critic_free = now + lasting["update_critic"]
    if level == "None":
        now = critic_free
    began["update_actor"] = now
    now += lasting["update_actor"]
    if level in ("Update", "Inference"):
        now = max(now, critic_free)
    began["update_weights"] = now
    now += lasting["update_weights"]
    return began, now, critic_free
