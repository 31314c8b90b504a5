"""A job on a cluster as a person looks at it: how far it is, which pools are there, and what it waits for.

Pure: a job and the time in, text out; colours as in `drawing`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from split_ppo.api.status import AttemptStatus, TrainingStatus
from split_ppo.cli.drawing import COLOURS
from split_ppo.cli.jobs import JobOnCluster
from split_ppo.cli.plain_text import plain

PHASE_COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "red",
    "Recovering": "yellow",
    "Suspended": "cyan",
    "Pending": "yellow",
    "Provisioning": "yellow",
    "Starting": "yellow",
}
WAITING = ("Pending", "Provisioning", "Starting", "Recovering")
HINTS = {
    "Unschedulable": "Free GPUs, make the pools smaller while suspended, or wait.",
    "ImagePull": "Correct spec.image or spec.imagePullSecrets: split-ppo suspend, kubectl edit, split-ppo resume.",
    "ConfigError": "Make the Secret or ConfigMap; the job goes on by itself.",
    "Queued": "Kueue admits it when its quota allows; nothing is wrong.",
    "PodsRefused": "A quota or an admission policy of the namespace is in the way.",
    "KubeRayMissing": "Install KubeRay; the job goes on by itself.",
    "Forbidden": "The operator lacks a right; its role has to be mended.",
}
UNNOTICED = (
    "No operator has looked at this job yet: is it running, and does it watch this namespace? "
    "kubectl get pods -A -l app.kubernetes.io/name=split-ppo"
)
_BAR = 24


def draw_job(found: JobOnCluster, now: datetime) -> str:
    """Everything worth knowing about one job."""
    parts = [_headline(found, now), *_why(found, now)]
    ended = found.finished or found.phase == "Suspended"
    if found.status.pools and (not ended or any(p.ready for p in found.status.pools)):
        parts += ["", *_pools(found)]
    training = found.status.training
    if training is not None and training.step is not None:
        parts += ["", *_training(training, now, running=found.phase == "Running")]
    if found.status.recommendation is not None and found.status.recommendation.message:
        parts += ["", *_wrapped(f"advice    {found.status.recommendation.message}")]
    attempts = found.status.attempts or []
    if len(attempts) > 1 or any(a.outcome == "Failed" for a in attempts):
        parts += ["", *_attempts(attempts, now)]
    return "\n".join(parts) + "\n"


def phase_line(found: JobOnCluster, now: datetime) -> str:
    """One line for logs and pipes: what changed, and why."""
    step = found.status.training.progress if found.status.training and found.phase == "Running" else None
    words = f"{found.name}: {found.phase}" + (f", step {step}" if step else "")
    message = UNNOTICED if found.unnoticed(now) else _words(found.status.message)
    return f"{words}. {message}" if message else f"{words}."


def draw_table(jobs: Sequence[JobOnCluster], now: datetime, *, namespaces: bool, width: int | None) -> str:
    """Like `kubectl get`, with what each job waits for; cut to the terminal's width, whole in a pipe."""
    header = ["NAME", "PHASE", "POOLS", "STEP", "REWARD", "AGE", "REASON", "MESSAGE"]
    rows = [header] + [_row(job, now) for job in jobs]
    if namespaces:
        rows = [["NAMESPACE", *rows[0]]] + [
            [job.job.metadata.namespace or "", *row] for job, row in zip(jobs, rows[1:], strict=True)
        ]
    widths = [max(len(click.unstyle(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell + " " * (size - len(click.unstyle(cell))) for cell, size in zip(row, widths, strict=True)]
        start, message = "   ".join(cells[:-1]) + "   ", row[-1]
        room = None if width is None else max(width - len(click.unstyle(start)), 0)
        lines.append(
            (start + (message if room is None or len(message) <= room else f"{message[: room - 1]}…")).rstrip()
        )
    return "\n".join(lines) + "\n"


def duration(seconds: float) -> str:
    """`45s`, `12m`, `3h20m`, `5d`."""
    whole = max(int(seconds), 0)
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m"
    if whole < 172_800:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d"


def _row(job: JobOnCluster, now: datetime) -> list[str]:
    training = job.status.training
    message = UNNOTICED if job.unnoticed(now) else _words(job.status.message)
    return [
        job.name,
        click.style(job.phase, fg=PHASE_COLOURS.get(job.phase)),
        job.status.pool_summary or "-",
        (training.progress if training else None) or "-",
        f"{training.reward:.3g}" if training and training.reward is not None else "-",
        duration((now - job.created).total_seconds()),
        job.status.reason or "-",
        message,
    ]


def _headline(found: JobOnCluster, now: datetime) -> str:
    phase = click.style(found.phase, fg=PHASE_COLOURS.get(found.phase), bold=True)
    ages = [f"made {duration((now - found.created).total_seconds())} ago"]
    if found.status.finished_at is not None:
        ages.append(f"ended {duration((now - found.status.finished_at).total_seconds())} ago")
    if (found.status.attempt or 0) > 1:
        ages.insert(0, f"attempt {found.status.attempt}")
    name = click.style(found.name, bold=True)
    return f"{name} in {found.job.metadata.namespace}: {phase}, {', '.join(ages)}"


def _why(found: JobOnCluster, now: datetime) -> list[str]:
    if found.unnoticed(now):
        return _wrapped(UNNOTICED)
    reason, message = found.status.reason, _words(found.status.message)
    if not message:
        return []
    waits = found.phase in WAITING
    lead = click.style(f"Waiting: {reason}. ", fg="yellow") if waits and reason else ""
    lines = _wrapped(lead + message)
    hint = HINTS.get(reason or "") if waits else None
    return lines + (_wrapped(click.style(hint, dim=True)) if hint else [])


def _pools(found: JobOnCluster) -> list[str]:
    pools, unit = found.status.pools or [], "GPU" if found.job.spec.placement.device == "GPU" else "slot"
    width = max(len(p.name) for p in pools)
    lines = []
    for pool in pools:
        bar = _bar(pool.ready, pool.desired, COLOURS.get(pool.name))
        count = f"{pool.ready}/{pool.desired} pods"
        lines.append(f"  {pool.name:<{width}}  {bar}  {count}, {pool.gpus} {unit}{'s' * (pool.gpus != 1)}")
        if pool.message:
            lines += _wrapped(f"{pool.reason}: {_words(pool.message)}", indent=" " * (width + 4))
    return lines


def _training(training: TrainingStatus, now: datetime, *, running: bool) -> list[str]:
    step, total = training.step or 0, training.total_steps or 0
    facts = [f"step {training.progress or step}"]
    if training.reward is not None:
        facts.append(f"reward {training.reward:.4g}")
    if training.overlap_efficiency is not None:
        facts.append(f"overlap {training.overlap_efficiency:.0%}")
    if running and training.eta is not None and training.eta > now:
        facts.append(f"{duration((training.eta.astimezone(UTC) - now).total_seconds())} to go")
    lines = [f"  {_bar(step, total, 'green')}  {', '.join(facts)}"]
    seconds = {k: v for k, v in (training.phase_seconds or {}).items() if v}
    if running and seconds:
        longest = sorted(seconds.items(), key=lambda item: -item[1])
        lines.append(click.style("  " + "  ".join(f"{k} {v:.3g}s" for k, v in longest), dim=True))
    if training.checkpoint:
        lines.append(f"  checkpoint {training.checkpoint}")
    return lines


def _attempts(attempts: Sequence[AttemptStatus], now: datetime) -> list[str]:
    lines = []
    for attempt in attempts:
        took = ""
        if attempt.started_at is not None:
            took = f" after {duration(((attempt.finished_at or now) - attempt.started_at).total_seconds())}"
        why = (
            f": {attempt.reason}. {_words(attempt.message)}" if attempt.reason and attempt.outcome != "Running" else ""
        )
        lines += _wrapped(f"attempt {attempt.number}  {attempt.outcome}{took}{why}")
    return lines


def _words(message: str | None) -> str:
    """A message in one line; some hold what a trainer said last, whatever that was."""
    return " ".join(plain(line) for line in (message or "").splitlines())


def _bar(done: int, of: int, colour: str | None) -> str:
    filled = round(_BAR * min(done / of, 1.0)) if of else 0
    return click.style("█" * filled, fg=colour) + click.style("░" * (_BAR - filled), dim=True)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    wrapped = click.wrap_text(text, width=110, initial_indent=indent, subsequent_indent=indent)
    return wrapped.splitlines()
