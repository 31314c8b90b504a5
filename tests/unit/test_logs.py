import json
import logging
from collections.abc import Iterator

import pytest

from split_ppo_operator.logs import configure_logs, looking_at


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def test_what_is_said_during_a_look_names_the_job_and_the_look(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(form="json", level="INFO")
    log = logging.getLogger("split_ppo.anything")
    with looking_at("team/one"):
        log.info("first")
        log.warning("second", extra={"phase": "Running"})
    with looking_at("team/one"):
        log.info("third")
    log.info("outside")
    first, second, third, outside = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert {e["job"] for e in (first, second, third)} == {"team/one"}
    assert first["reconcile"] == second["reconcile"] != third["reconcile"]
    assert (second["level"], second["phase"]) == ("warning", "Running")
    assert "job" not in outside


def test_text_names_the_job_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(form="text", level="INFO")
    with looking_at("team/one"):
        logging.getLogger("split_ppo.anything").info("hello")
    assert capsys.readouterr().err.endswith("[team/one] hello\n")
