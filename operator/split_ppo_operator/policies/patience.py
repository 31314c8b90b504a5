"""How soon to look again at something that events may not tell of: the longer it has been so, the less often.

A thousand jobs that wait for GPUs then cost next to nothing, and one that has just begun to wait is not kept waiting by us.
"""

from datetime import datetime

from split_ppo_operator.snapshot import Snapshot


def look_again(waited: float, *, least: float, most: float) -> float:
    return min(max(waited / 10.0, least), most)


def seconds_since(snapshot: Snapshot, condition: str, now: datetime) -> float:
    """How long a condition has been as it is."""
    since = snapshot.phase_since(condition)
    return max((now - since).total_seconds(), 0.0) if since is not None else 0.0
