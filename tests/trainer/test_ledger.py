"""Metrics reach the step they belong to, in order."""

from typing import Any

from split_ppo_trainer.ledger import StepLedger


class Written:
    """Stands where verl's Tracking does."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, dict[str, Any]]] = []
        self.finished: int | None = None
        self.logger: dict[str, Any] = {}

    def log(self, data: dict[str, Any], step: int) -> None:
        self.lines.append((step, dict(data)))

    def finish(self, exit_code: int) -> None:
        self.finished = exit_code


def test_a_step_is_held_until_its_critic_reports() -> None:
    tracking, published = Written(), []
    ledger = StepLedger(tracking, lambda step, metrics: published.append(step))
    ledger.keep_open(1)
    ledger.log({"actor/loss": 1.0}, step=1)
    assert tracking.lines == []
    ledger.complete(1, {"critic/loss": 2.0}, lambda metrics: metrics.update(total=3.0))
    ledger.log({"actor/loss": 4.0}, step=2)
    assert tracking.lines == [(1, {"actor/loss": 1.0, "critic/loss": 2.0, "total": 3.0}), (2, {"actor/loss": 4.0})]
    assert published == [1, 2]


def test_what_is_still_held_goes_out_at_the_end() -> None:
    tracking = Written()
    ledger = StepLedger(tracking, lambda *_: None)
    ledger.keep_open(7)
    ledger.log({"actor/loss": 1.0}, step=7)
    ledger.finish(exit_code=1)
    assert tracking.lines == [(7, {"actor/loss": 1.0})]
    assert tracking.finished == 1
