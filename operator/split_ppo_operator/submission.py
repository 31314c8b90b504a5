"""What is handed to Ray, under which name, and how its end is read."""

from split_ppo.api.job import SplitPPOJob
from split_ppo.ends import end_of
from split_ppo_operator.desired.names import PLAN_DIR, PLAN_FILE
from split_ppo_operator.desired.plan_file import checkpoint_folder

# The trainer's exit code for a plan or an input that can't work: no retry would change that.
BAD_INPUT = 2


def submission_id(job: SplitPPOJob, attempt: int) -> str:
    """The same for the same attempt, however often it is tried: Ray refuses an id it has seen."""
    return f"{job.metadata.uid}-{attempt}"


def entrypoint(job: SplitPPOJob, attempt: int) -> str:
    folder = checkpoint_folder(job)
    output = f"{folder}/attempts/{attempt}" if folder else f"/tmp/split-ppo/{attempt}"
    # The plan is its RayCluster's and says which attempt that was made for; a later one on the same cluster says so here.
    resume = " --resume" if folder and attempt > 1 else ""
    # Ray's log goes with the RayCluster; what is on the volume stays.
    log = f" --log {output}/run.log" if folder else ""
    return f"python -m split_ppo_trainer --plan {PLAN_DIR}/{PLAN_FILE} --output {output}{log}{resume}"


def end_reason(message: str, exit_code: int | None) -> str:
    """The trainer's own word for it, where it said one that is known."""
    return end_of(last_line(message)) or ("BadInput" if exit_code == BAD_INPUT else "TrainingFailed")


def last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def last_words(message: str, exit_code: int | None) -> str:
    """The trainer's last line says what went wrong; Ray gives the end of its log."""
    last = last_line(message)
    last = last if len(last) <= 1000 else last[:1000] + "…"
    code = f" (exit code {exit_code})" if exit_code is not None else ""
    if not last:
        return f"The training ended{code} without a word."
    return f"The training ended{code}: {last}" + ("" if last.endswith((".", "!", "?", "…")) else ".")
