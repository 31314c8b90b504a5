"""The pod that reads a finished attempt's log off the checkpoints' volume: the job's own head, without Ray. Pure.

It has the image, the claims and the security context that the job's pods had, so it may run where they might; it mounts
read-only, has no token, ends by itself, and goes with the job should nobody delete it.
"""

import shlex
from typing import Any

from split_ppo.api import API_VERSION, KIND
from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.checks import check_job
from split_ppo_operator.desired.plan_file import checkpoint_folder
from split_ppo_operator.desired.pods import head_template

Object = dict[str, Any]
LOG_FILE = "run.log"
# The kubelet keeps at least this much of what a container says.
SHOWN_BYTES = 8 * 1024 * 1024
NO_LOG = 3


def reader_pod(job: SplitPPOJob, *, attempt: int, suffix: str) -> Object:
    """Prints the newest placement event (or an empty line), then the end of the log; exits with 3 where there is none."""
    folder = f"{checkpoint_folder(job)}/attempts/{attempt}"
    script = (
        f"cd {shlex.quote(folder)} && test -f {LOG_FILE} || exit {NO_LOG}; "
        'event=$(grep -hE \'"event": ?"placement"\' events.jsonl 2>/dev/null | tail -n 1); '
        f"printf '%s\\n' \"$event\"; exec tail -c {SHOWN_BYTES} {LOG_FILE}"
    )
    spec = dict(head_template(job, check_job(job), attempt=attempt)["spec"])
    claims = [v for v in spec.pop("volumes") if "persistentVolumeClaim" in v]
    names = {volume["name"] for volume in claims}
    ray = next(c for c in spec.pop("containers") if c["name"] == "ray")
    container: Object = {key: ray[key] for key in ("image", "imagePullPolicy", "securityContext") if key in ray}
    container |= {
        "name": "reader",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}},
        "volumeMounts": [{**mount, "readOnly": True} for mount in ray["volumeMounts"] if mount["name"] in names],
    }
    for needless in ("serviceAccountName", "initContainers", "priorityClassName"):
        spec.pop(needless, None)
    spec |= {
        "containers": [container],
        "volumes": claims,
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 600,
        "terminationGracePeriodSeconds": 0,
    }
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": job.metadata.name, "uid": job.metadata.uid}
    # Not the job's own labels: the operator counts pods by them.
    labels = {"app.kubernetes.io/managed-by": "split-ppo-cli", "app.kubernetes.io/component": "log-reader"}
    metadata = {"name": f"{job.metadata.name}-logs-{suffix}", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
