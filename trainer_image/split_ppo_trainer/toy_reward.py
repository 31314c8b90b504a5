"""The toy's reward: the share of the answer that is digits.

Dense, so that a model of random weights climbs it within minutes; it asks for the form of an answer to a sum, not for
the right sum. Copied beside the toy's data, because verl loads a reward function from a file and nothing else of this
package is there.
"""

from __future__ import annotations

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> float:
    return sum(character in "0123456789" for character in solution_str) / max(len(solution_str), 1)
