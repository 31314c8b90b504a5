"""Logs: one JSON object a line in a cluster, text for people. What is said during a look carries the job and the look's id."""

import json
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_FIELDS = ("job", "reconcile", "phase")
_look: ContextVar[tuple[str, str] | None] = ContextVar("look", default=None)


@contextmanager
def looking_at(job: str) -> Iterator[None]:
    """All that is logged inside is about this job, in one look with an id of its own."""
    token = _look.set((job, secrets.token_hex(4)))
    try:
        yield
    finally:
        _look.reset(token)


def _add_look(record: logging.LogRecord) -> bool:
    look = _look.get()
    if look is not None:
        record.job, record.reconcile = look
    return True


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(about)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        job = getattr(record, "job", None)
        record.about = f"[{job}] " if job else ""
        return super().format(record)


def configure_logs(*, form: str, level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_add_look)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # kopf's own news (every event, every credential) is of use to nobody but its authors.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    # It says that it can't have the signals, which is as it should be.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
