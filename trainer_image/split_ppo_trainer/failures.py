"""Why a run ended, in one word and one sentence.

verl's errors arrive wrapped several times by Ray and seldom say what to do. `explain` unwraps them and finds the
sentence; whoever knows more (a checkpoint that could not be written, a reward that raised) raises RunFailure itself.
"""

import errno
import re

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_POOLS_MISSING, EXIT_MOVED = 1, 2, 3, 4

# The last one is torch.save's word for it: it counts the bytes it could not write and drops the errno.
_DISK_FULL = re.compile(
    r"no space left on device|disk quota exceeded|file write failed|PytorchStreamWriter failed"
    r"|inline_container.*unexpected pos",
    re.IGNORECASE,
)
_DIED = (
    "ActorDiedError",
    "ActorUnavailableError",
    "RayActorError",
    "WorkerCrashedError",
    "NodeDiedError",
    "OwnerDiedError",
)


class RunFailure(Exception):
    """The run cannot go on; `str()` is the sentence the user reads."""

    def __init__(self, reason: str, message: str, *, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.reason, self.message, self.exit_code)


def _rebuild(reason: str, message: str, exit_code: int) -> RunFailure:
    return RunFailure(reason, message, exit_code=exit_code)


def bad_input(message: str) -> RunFailure:
    """Something the user wrote is wrong; nothing was started."""
    return RunFailure("BadInput", message, exit_code=EXIT_BAD_INPUT)


def explain(error: BaseException) -> RunFailure:
    """The failure behind whatever came out of verl, Ray or torch."""
    chain = _unwrap(error)
    for link in chain:
        if isinstance(link, RunFailure):
            return link
    for link in chain:
        if is_disk_full(link):
            return RunFailure("DiskFull", f"The disk is full: {first_line(link)}")
    for link in chain:
        if type(link).__name__ == "OutOfMemoryError":
            return RunFailure("OutOfMemory", f"Memory ran out: {first_line(link)}")
        if type(link).__name__ in _DIED or any(name in type(link).__name__ for name in _DIED):
            return RunFailure("WorkerDied", f"A worker of the run died: {death_cause(str(link))}")
    root = chain[-1]
    return RunFailure(type(root).__name__, f"{type(root).__name__}: {first_line(root)}")


def is_disk_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return bool(_DISK_FULL.search(str(error)))


def first_line(error: BaseException) -> str:
    """The line of a message worth reading: Ray puts the traceback in front, the sentence last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if any(line.startswith("Traceback") or "ray::" in line for line in lines):
        return lines[-1]
    return lines[0]


def death_cause(text: str) -> str:
    """Ray's report of a dead actor, without its table of ids."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"died|killed|crash|exit|lost|unexpected", line, re.I)]
    words = " ".join(dict.fromkeys(telling)) or (lines[0] if lines else "Ray gives no cause")
    return words[:600]


def _unwrap(error: BaseException) -> list[BaseException]:
    """The error and what it wraps, outermost first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and all(current is not seen for seen in chain):
        chain.append(current)
        wrapped = getattr(current, "cause", None)
        current = wrapped if isinstance(wrapped, BaseException) else current.__cause__
    return chain
