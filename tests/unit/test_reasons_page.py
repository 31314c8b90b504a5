"""Every reason a user can meet is explained on one page, and the page explains none that there is not."""

import re

from split_ppo.api.generate import ROOT
from split_ppo.ends import ENDS

PAGE = (ROOT / "docs" / "conditions-and-reasons.md").read_text()
OPERATOR = sorted((ROOT / "operator" / "split_ppo_operator").rglob("*.py"))
CHECKS = [*sorted((ROOT / "split_ppo" / "placement").rglob("*.py")), ROOT / "split_ppo" / "ends.py"]
# As reasons are written: an argument, the first of a tuple or a call of `finding`, the condition's other side.
WRITTEN = (
    r'reason="([A-Z]\w+)"',
    r'reason=\(?"([A-Z]\w+)" if',
    r'return "([A-Z][a-zA-Z]+)", f?"',
    r'finding\(\s*"([A-Z]\w+)"',
    r'REASON = "([A-Z]\w+)"',
    r'when\([^,]+(?:, [^,]+)*, "([A-Z]\w+)"\)',
    r'Readiness\((?:True|False), "([A-Z]\w+)"',
)


def in_code() -> set[str]:
    text = "\n".join(p.read_text() for p in (*OPERATOR, *CHECKS))
    return {reason for pattern in WRITTEN for reason in re.findall(pattern, text)}


def test_every_reason_is_on_the_page() -> None:
    reasons = in_code() | ENDS
    assert {"Unschedulable", "BatchNotDivisible", "NotStalled", "HeadRestarted", "KubeRayMissing"} <= reasons
    assert {reason for reason in reasons if f"`{reason}`" not in PAGE} == set()


def test_every_reason_on_the_page_exists() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    findings = PAGE[PAGE.index("## Findings") :]
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", "\n".join([*rows, findings])))
    text = "\n".join(p.read_text() for p in (*OPERATOR, *CHECKS)) + (ROOT / "split_ppo/api/status.py").read_text()
    assert {name for name in named if f'"{name}"' not in text} == set()
