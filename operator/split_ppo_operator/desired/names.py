"""Names, labels and paths of everything that is made for a job."""

from split_ppo.api import GROUP

JOB_LABEL = f"{GROUP}/job"
POOL_LABEL = f"{GROUP}/pool"
ATTEMPT_LABEL = f"{GROUP}/attempt"

# The trainer's plan, on the head pod.
PLAN_ANNOTATION = f"{GROUP}/plan"

# Where things are in the pods. The parts of the trainer's image are under its own folders.
PLAN_DIR = "/etc/split-ppo/plan"
PLAN_FILE = "plan.json"
REWARD_DIR = "/etc/split-ppo/reward"


def cluster_name(job: str, attempt: int) -> str:
    """One RayCluster per attempt: under a name used before, KubeRay would count the dying pods of the old one."""
    return f"{job}-{attempt}"


def trainer_name(job: str, uid: str | None) -> str:
    """ServiceAccount, Role and RoleBinding with which the trainer writes its progress.

    With the object's uid, which nobody can choose: a job could else be named so that its pods speak with the rights of a
    ServiceAccount that was there before. A job that is only planned has none yet.
    """
    return f"{job}-{uid[:8]}-trainer" if uid else f"{job}-trainer"


def labels(job: str, *, attempt: int | None = None, pool: str | None = None) -> dict[str, str]:
    found = {"app.kubernetes.io/managed-by": "split-ppo", JOB_LABEL: job}
    if attempt is not None:
        found[ATTEMPT_LABEL] = str(attempt)
    if pool is not None:
        found[POOL_LABEL] = pool
    return found
