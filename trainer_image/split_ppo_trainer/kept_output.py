"""Everything the driver prints, in a file as well: Ray's own log of it goes with the Ray cluster.

That is the output of every process of the run, because Ray sends it to the driver. A file that can't be written any more (a full
disk) is given up with one line; it never ends a run.
"""

import contextlib
import sys
from io import TextIOBase
from pathlib import Path
from typing import IO, Any


class _Both(TextIOBase):
    """A stream of the process that also writes to the file; whatever else is asked of it the stream answers."""

    def __init__(self, stream: IO[str], file: IO[str]) -> None:
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        if not self._file.closed:
            try:
                self._file.write(text)
                self._file.flush()
            except OSError as problem:
                self._give_up(problem)
        return written

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def _give_up(self, problem: OSError) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        self._stream.write(f"The log file is not written any more: {problem}\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def keep_output(path: Path) -> None:
    """From here on standard output and standard error also go to the file; a folder that can't be written is only said."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as problem:
        print(f"There will be no log file: {problem}", file=sys.stderr, flush=True)
        return
    sys.stdout, sys.stderr = _Both(sys.stdout, file), _Both(sys.stderr, file)
