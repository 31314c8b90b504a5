"""The layout as the scheduler understands it: which pods share a node and which must not.

A pool has one pod per node, so its pods keep apart from each other. WithinNodes: every pod of the other pools goes where an
actor pod is. AcrossNodes: no two pools share a node. What the user asked for is required; what Auto chose is preferred.
"""

from collections.abc import Sequence
from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import PlacementPlan, PoolPlan
from split_ppo_operator.desired.names import ATTEMPT_LABEL, JOB_LABEL, POOL_LABEL

Object = dict[str, Any]


def affinity(job: SplitPPOJob, plan: PlacementPlan, pool: PoolPlan, *, attempt: int) -> Object:
    required = job.spec.placement.layout != "Auto"
    # The attempt too: pods of the last one may still be going away, and must neither attract nor repel.
    ours = {JOB_LABEL: job.metadata.name, ATTEMPT_LABEL: str(attempt)}
    others = [p.name for p in plan.pools if p.name != pool.name]
    apart = [_pods(ours, [pool.name])] if pool.nodes > 1 else []
    together: list[Object] = []
    if plan.layout == "AcrossNodes" and others:
        apart.append(_pods(ours, others))
    elif plan.layout == "WithinNodes" and pool.name != "actor":
        together.append(_pods(ours, ["actor"]))
    found: Object = {}
    if apart:
        found["podAntiAffinity"] = _terms(apart, required)
    if together:
        found["podAffinity"] = _terms(together, required)
    return found


def _pods(ours: dict[str, str], pools: Sequence[str]) -> Object:
    return {
        "labelSelector": {
            "matchLabels": ours,
            "matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": list(pools)}],
        },
        "topologyKey": "kubernetes.io/hostname",
    }


def _terms(terms: list[Object], required: bool) -> Object:
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": t} for t in terms]}
