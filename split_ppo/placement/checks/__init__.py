"""The checks: everything that must hold before a job may start, said all at once.

Each check is a pure generator of findings over a `Case`. The CLI, reconcile and `split-ppo run` call `check_job`; nothing else
decides whether a job is accepted. What the CRD's CEL rules say is said here too, with the numbers.
"""

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.checks import batches, cluster, pools, settings
from split_ppo.placement.checks.case import Case, Check
from split_ppo.placement.plan import PlacementPlan
from split_ppo.placement.planner import plan_placement
from split_ppo.verl_config import verl_settings

CHECKS: tuple[Check, ...] = (*pools.CHECKS, *batches.CHECKS, *settings.CHECKS)
# What only matters where Kubernetes makes the pods; `split-ppo run` has no pods to name.
CLUSTER_CHECKS: tuple[Check, ...] = cluster.CHECKS


def check_job(job: SplitPPOJob, *, on_kubernetes: bool = True) -> PlacementPlan:
    """The job's plan, with everything that is wrong with the job among its findings."""
    plan = plan_placement(job.spec.placement)
    case = Case(job=job, plan=plan, settings=verl_settings(job.spec))
    checks = CHECKS + CLUSTER_CHECKS if on_kubernetes else CHECKS
    return plan.model_copy(update={"findings": plan.findings + tuple(f for check in checks for f in check(case))})
