"""A plan as a person looks at it: nodes and GPUs, who sits where, what each rank gets, what would be created.

Text in, text out: colours are added as terminal codes, and click takes them away again where the output is not a terminal.
"""

from itertools import groupby

import click

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.checks.case import Case
from split_ppo.placement.plan import PlacementPlan, PoolPlan
from split_ppo.verl_config import verl_settings

COLOURS = {"actor": "blue", "critic": "magenta", "reward": "green"}
ROLE_NAMES = {
    "ActorRollout": "policy and rollout",
    "RefPolicy": "reference policy",
    "Critic": "critic",
    "RewardModel": "reward model",
}
OVERLAP = {
    "None": "nothing: one thing after the other",
    "Update": "both updates together",
    "Inference": "both updates together, and values beside log-probabilities",
    "NextGeneration": "updates, values beside log-probabilities, and the critic's update behind the next generation",
}
_GPUS_A_LINE = 16


def draw(job: SplitPPOJob, plan: PlacementPlan) -> str:
    """The drawing of one job."""
    case = Case(job=job, plan=plan, settings=verl_settings(job.spec))
    parts = [_headline(job, plan)]
    if plan.pools:
        parts += ["", *_nodes(plan), "", *_pools(case)]
    if plan.pools and not plan.findings:
        parts += ["", *_facts(case), *_creates(case)]
    return "\n".join(parts) + "\n"


def _headline(job: SplitPPOJob, plan: PlacementPlan) -> str:
    unit = "GPUs" if plan.device == "GPU" else "CPU slots"
    sizes = " + ".join(f"{p.name} {p.world_size}" for p in plan.pools) or "no pools"
    name = click.style(job.metadata.name, bold=True)
    layout = f", {plan.layout}" if plan.mode == "Split" and plan.pools else ""
    return f"{name}: {plan.mode}{layout}, {sizes}" + (f" of {plan.total_gpus} {unit}" if plan.pools else "")


def _nodes(plan: PlacementPlan) -> list[str]:
    """A row per node; equal neighbours share one."""
    rows: list[tuple[str, list[str]]] = []
    index = 0
    for machine, group in groupby(plan.machines()):
        count = len(list(group))
        label = f"node {index}" if count == 1 else f"nodes {index}-{index + count - 1}"
        cells = [_cell(pool) for pool, gpus in machine.items() for _ in range(gpus)]
        rows.append((label, cells))
        index += count
    width = max(len(label) for label, _ in rows)
    lines = []
    for label, cells in rows:
        for start in range(0, len(cells), _GPUS_A_LINE):
            shown = label if start == 0 else ""
            lines.append(f"  {shown:<{width}}  {''.join(cells[start : start + _GPUS_A_LINE])}")
    return lines


def _cell(pool: str) -> str:
    return click.style(f"[{pool[0].upper()}]", fg=COLOURS[pool], bold=True)


def _pools(case: Case) -> list[str]:
    """One line per pool with what its ranks get."""
    plan, unit = case.plan, "GPUs" if case.plan.device == "GPU" else "slots"
    header = ["", "pool", f"nodes x {unit}", "ranks", "batch/rank", "mini/rank", "micro", "resource", "roles"]
    rows = [header]
    for pool in plan.pools:
        roles = [role for role in case.used_roles() if plan.roles.get(role) == pool.name]
        sizes = _per_rank(case, pool)
        rows.append(
            [
                _cell(pool.name),
                pool.name,
                f"{pool.nodes} x {pool.gpus_per_node}",
                str(pool.world_size),
                *sizes,
                pool.resource,
                ", ".join(ROLE_NAMES[r] for r in roles) or "-",
            ]
        )
    return _table(rows)


def _per_rank(case: Case, pool: PoolPlan) -> list[str]:
    trained = [r for r in case.used_roles() if r in ("ActorRollout", "Critic") and case.plan.roles.get(r) == pool.name]
    if not trained or not case.placed:
        return ["-", "-", "-"]
    role = trained[0]
    section = "critic" if role == "Critic" else "actor_rollout_ref.actor"
    samples = case.number("actor_rollout_ref.rollout.n", "")
    ranks, times = case.data_parallel_size(role), samples.value if samples else 1
    numbers = [
        (case.number("data.train_batch_size", ""), times / ranks),
        (case.number(f"{section}.ppo_mini_batch_size", ""), times / ranks),
        (case.number(f"{section}.ppo_micro_batch_size_per_gpu", ""), 1),
    ]
    return [f"{setting.value * factor:g}" if setting else "-" for setting, factor in numbers]


def _facts(case: Case) -> list[str]:
    spec = case.spec
    unused = [ROLE_NAMES[r] for r in case.plan.roles if r not in case.used_roles()]
    facts = [("overlap", f"{spec.overlap}: {OVERLAP[spec.overlap]}" if case.plan.mode == "Split" else "none: one pool")]
    if unused:
        facts.append(("not used", ", ".join(unused)))
    if spec.storage.checkpoints is None:
        facts.append(("checkpoints", "none: a retry or a resumed job starts again at step 0"))
    else:
        keep = f"every {spec.storage.every_steps} steps, {spec.storage.keep} kept"
        facts.append(("checkpoints", f"{spec.storage.checkpoints.path}, {keep}"))
    from split_ppo_operator.desired.reach import asked_for

    reach = asked_for(case.job, case.plan)
    if reach:
        facts.append(("must allow", f"{', '.join(reach)}: the operator's --allow-in-pod-template, for podTemplate"))
    width = max(len(k) for k, _ in facts)
    return [f"  {click.style(f'{key:<{width}}', dim=True)}  {text}" for key, text in facts]


def _creates(case: Case) -> list[str]:
    """What the operator would create, in a line per group of pods."""
    from split_ppo_operator.desired import cluster_name, pod_request

    lines = ["", f"On Kubernetes: RayCluster {cluster_name(case.job.metadata.name, 1)}"]
    rows = [["", "head", "1 pod", pod_request(case.job, case.plan, None)]]
    rows += [
        ["", p.name, f"{p.nodes} pod{'s' if p.nodes > 1 else ''}", pod_request(case.job, case.plan, p.name)]
        for p in case.plan.pools
    ]
    return lines + _table(rows)


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(click.unstyle(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True)]
        line = "  " + "  ".join(cells).rstrip()
        lines.append(click.style(line, dim=True) if number == 0 and row[0] == "" and row[1] == "pool" else line)
    return lines
