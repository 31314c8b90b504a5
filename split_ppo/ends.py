"""Why the trainer ended, in one word: a contract between trainer and operator.

The trainer's last line is `Word: sentence`. Where the word is one of these, the operator makes it the job's reason; any
other is the name of a Python error, of which there is no end.
"""

ENDS = frozenset(
    {
        "BadInput",
        "BatchLost",
        "CannotReshard",
        "CheckpointFailed",
        "DiskFull",
        "GenerationStalled",
        "NodeLost",
        "NonFiniteLoss",
        "OutOfMemory",
        "PlacementStalled",
        "PoolsMissing",
        "RayNotFound",
        "RolloutFailed",
        "RolloutStartStalled",
        "RunnerStalled",
        "Stalled",
        "ToysFailed",
        "TrainingStalled",
        "WeightSyncStalled",
        "WorkerDied",
    }
)


def end_of(line: str) -> str | None:
    """The word a line begins with, if it is one of them."""
    word = line.partition(":")[0].strip()
    return word if word in ENDS else None
