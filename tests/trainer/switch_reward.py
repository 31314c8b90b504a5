"""The toy's reward, with switches beside it that a test can turn: `nan`, `raise`, `hang`, and with a process id `kill` and
`freeze`, which stops that process when a whole batch of 8 has been generated and scored.
"""

import os
import signal
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def compute_score(data_source: str, solution_str: str, ground_truth: str, **_: Any) -> float:
    if (HERE / "raise").exists():
        raise ValueError("the reward was told to raise")
    if (HERE / "kill").exists():
        victim = int((HERE / "kill").read_text())
        (HERE / "kill").unlink()
        os.kill(victim, signal.SIGKILL)
    with (HERE / "scored").open("ab") as scored:
        scored.write(b".")
    if (HERE / "freeze").exists() and (HERE / "scored").stat().st_size % 8 == 0:
        os.kill(int((HERE / "freeze").read_text()), signal.SIGSTOP)
    if (HERE / "hang").exists():
        signal.pause()
    if (HERE / "nan").exists():
        return float("nan")
    return sum(character in "0123456789" for character in solution_str) / max(len(solution_str), 1)
