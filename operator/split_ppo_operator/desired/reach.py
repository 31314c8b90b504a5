"""How far a pod of a job could reach beyond itself: what a podTemplate must not give to somebody who may not make pods.

The operator and KubeRay make pods for whoever may create a SplitPPOJob, so what stands in a podTemplate is looked at with the
eyes of Pod Security's `restricted`, and one more: under whose name the pod speaks to the API server. Looked at is the
finished template, because a podTemplate can also take away what we put in. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from split_ppo.api.job import SplitPPOJob
from split_ppo.placement.plan import Finding, PlacementPlan
from split_ppo_operator.desired.names import trainer_name
from split_ppo_operator.desired.pods import head_template, worker_template

Object = Mapping[str, Any]
REASON = "PodTemplateNotAllowed"
# What a platform may allow (`--allow-in-pod-template`), each with what it means.
REACHES = {
    "hostPath": "mounts folders of the node, or volumes of a kind that does",
    "hostNetwork": "uses the node's network or one of its ports",
    "hostNamespaces": "sees the node's processes or shares its memory segments",
    "privileged": "has the rights of the node itself",
    "privilegeEscalation": "may gain rights that it was not started with",
    "capabilities": "has capabilities beyond none",
    "root": "may run as root",
    "unconfined": "runs without the runtime's seccomp, AppArmor, SELinux or /proc profile, or sets the node's sysctls",
    "serviceAccount": "speaks to the API server under another name than the trainer's",
}
_OWN_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SAFE_SYSCTLS = ("kernel.shm_rmid_forced", "net.ipv4.")


def beyond(job: SplitPPOJob, plan: PlacementPlan, *, allowed: frozenset[str]) -> tuple[Finding, ...]:
    """A finding for each part of a template that reaches further than the platform allows."""
    found = {} if "all" in allowed else _found(job, plan)
    return tuple(_finding(where, reach, what) for (where, reach), what in found.items() if reach not in allowed)


def asked_for(job: SplitPPOJob, plan: PlacementPlan) -> tuple[str, ...]:
    """What the platform has to allow for this job."""
    return tuple(sorted({reach for _, reach in _found(job, plan)}))


def _found(job: SplitPPOJob, plan: PlacementPlan) -> dict[tuple[str, str], str]:
    """By field and name, the first thing that does it."""
    account = trainer_name(job.metadata.name, job.metadata.uid)
    templates: list[tuple[str, Object, str | None]] = [("placement.head", head_template(job, plan, attempt=1), account)]
    for pool in plan.pools:
        where = f"placement.pools.{pool.name}" if job.spec.placement.pools is not None else "placement.total"
        templates.append((where, worker_template(job, plan, pool, attempt=1), None))
    found: dict[tuple[str, str], str] = {}
    for where, template, own in templates:
        for reach, what in reaches(_mapping(template.get("spec")), account=own):
            found.setdefault((where, reach), what)
    return found


def reaches(pod: Object, *, account: str | None) -> Iterator[tuple[str, str]]:
    """What in a pod reaches beyond it, as (name, words); `account` is the ServiceAccount the operator gives it."""
    yield from _node(pod)
    yield from _volumes(pod)
    yield from _speaks(pod, account)
    security = _mapping(pod.get("securityContext"))
    yield from _unconfined(security, "the pod")
    for kind in ("initContainers", "containers"):
        for container in _mappings(pod.get(kind)):
            yield from _container(container, security)


def _mapping(value: object) -> Object:
    """What is no mapping says nothing: the API server refuses it before a pod is made."""
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Object]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _node(pod: Object) -> Iterator[tuple[str, str]]:
    if pod.get("hostNetwork"):
        yield "hostNetwork", "hostNetwork: true"
    for field in ("hostPID", "hostIPC"):
        if pod.get(field):
            yield "hostNamespaces", f"{field}: true"
    security = _mapping(pod.get("securityContext"))
    for sysctl in _mappings(security.get("sysctls")):
        if not str(sysctl.get("name", "")).startswith(_SAFE_SYSCTLS):
            yield "unconfined", f"the sysctl {sysctl.get('name')}"


def _volumes(pod: Object) -> Iterator[tuple[str, str]]:
    for volume in _mappings(pod.get("volumes")):
        foreign = set(volume) - {"name"} - _OWN_VOLUMES
        if foreign:
            yield "hostPath", f"the volume {volume.get('name')} of kind {min(foreign)}"


def _speaks(pod: Object, account: str | None) -> Iterator[tuple[str, str]]:
    for field in ("serviceAccountName", "serviceAccount"):
        if pod.get(field) and pod[field] != account:
            yield "serviceAccount", f"{field}: {pod[field]}"
    if account is None and pod.get("automountServiceAccountToken") is not False:
        yield "serviceAccount", "automountServiceAccountToken, which is false for workers"
    if account is not None and not pod.get("serviceAccountName"):
        yield "serviceAccount", "serviceAccountName, which was taken away"
    for volume in _mappings(pod.get("volumes")):
        for source in _mappings(_mapping(volume.get("projected")).get("sources")):
            if "serviceAccountToken" in source:
                yield "serviceAccount", f"a token in the volume {volume.get('name')}"


def _container(container: Object, pod: Object) -> Iterator[tuple[str, str]]:
    name = f"container {container.get('name')}"
    security = _mapping(container.get("securityContext"))
    if security.get("privileged"):
        yield "privileged", f"privileged: true of {name}"
    if security.get("allowPrivilegeEscalation") is not False:
        yield "privilegeEscalation", f"allowPrivilegeEscalation of {name}, which is not false"
    capabilities = _mapping(security.get("capabilities"))
    added = [c for c in _texts(capabilities.get("add")) if c != "NET_BIND_SERVICE"]
    if added:
        yield "capabilities", f"{', '.join(added)} of {name}"
    elif "ALL" not in _texts(capabilities.get("drop")):
        yield "capabilities", f"those of {name}, which does not drop ALL"
    effective = {**pod, **security}
    if effective.get("runAsNonRoot") is not True or effective.get("runAsUser") == 0:
        yield "root", f"{name} need not run as another user than root"
    yield from _unconfined(security, name)
    if _mapping(effective.get("seccompProfile")).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "unconfined", f"{name} without a seccompProfile"
    if any(port.get("hostPort") for port in _mappings(container.get("ports"))):
        yield "hostNetwork", f"a hostPort of {name}"


def _unconfined(security: Object, name: str) -> Iterator[tuple[str, str]]:
    for field in ("seccompProfile", "appArmorProfile"):
        if _mapping(security.get(field)).get("type") == "Unconfined":
            yield "unconfined", f"{field} Unconfined of {name}"
    if security.get("procMount") not in (None, "Default"):
        yield "unconfined", f"procMount of {name}"
    if security.get("seLinuxOptions"):
        yield "unconfined", f"seLinuxOptions of {name}"
    if _mapping(security.get("windowsOptions")).get("hostProcess"):
        yield "privileged", f"hostProcess of {name}"


def _finding(where: str, reach: str, what: str) -> Finding:
    message = (
        f"With {where}.podTemplate a pod {REACHES[reach]} ({what}), which the platform does not allow: take it out, or have "
        f"{reach} added to the operator's --allow-in-pod-template."
    )
    return Finding(reason=REASON, field=f"spec.{where}.podTemplate", message=message)
