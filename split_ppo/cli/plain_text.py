"""Text that others wrote, without what a terminal would obey: colours, cursor movements, titles, bars drawn over themselves."""

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.|$)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(line: str) -> str:
    """What a reader would have seen at the end; of a line that was drawn over, the last drawing."""
    seen = _ESCAPE.sub("", line).rstrip("\r").rpartition("\r")[2]
    return _CONTROL.sub("", seen)
