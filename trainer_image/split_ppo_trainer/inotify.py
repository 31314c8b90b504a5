"""Being told when something changes in a folder. The standard library has no inotify; these are its two calls."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x002, 0x080, 0x100


class FolderWatch:
    """A file descriptor that can be read when a file in the folder has appeared or has grown."""

    def __init__(self, folder: Path) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = library.inotify_init1(os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify is not available")
        if library.inotify_add_watch(self._descriptor, bytes(folder), IN_CREATE | IN_MOVED_TO | IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), f"{folder} cannot be watched")

    def fileno(self) -> int:
        return self._descriptor

    def wait(self) -> None:
        """Until something has changed since the last call."""
        os.read(self._descriptor, 1 << 16)

    def close(self) -> None:
        os.close(self._descriptor)
