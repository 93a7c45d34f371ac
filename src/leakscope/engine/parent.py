"""Processes that end with their parent, and what they share with it: nothing is left when it is killed.

Imports little: a new process runs this first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from leakscope.disk.storage import TEMPORARY

_PR_SET_PDEATHSIG = 1
_SECONDS_BETWEEN_CHECKS = 1.0


class SharedFile:
    """A file that other processes open by `path`, on the disk of `folder` (None: the temporary folder).

    On Linux it has no name, so the system removes it with its last user. Elsewhere it has one that the next
    run in the folder sweeps away.
    """

    def __init__(self, folder: Path | None) -> None:
        self._named: Path | None = None
        if sys.platform == "linux":
            self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            self.path = Path(f"/proc/{os.getpid()}/fd/{self.file.fileno()}")
        else:
            number, name = tempfile.mkstemp(prefix=f".shared{TEMPORARY}", dir=folder)
            self.file, self.path = os.fdopen(number, "w+b"), Path(name)
            self._named = self.path

    def close(self) -> None:
        """Ends its use by the parent."""
        self.file.close()
        if self._named is not None:
            self._named.unlink(missing_ok=True)


sent_at_start = b""
"""What the parent sent to this process when it started."""


def start(parent: int, sent: bytes) -> None:
    """In the new process. Nothing here may fail: an error must end a unit to be reported."""
    global sent_at_start
    sent_at_start = sent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    _end_with_parent(parent)


def _end_with_parent(parent: int) -> None:
    """Ends this process when its parent does, however that happens.

    On Linux the kernel does so at once, even inside a long call that holds Python's lock. Elsewhere a thread
    looks from time to time.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel knew
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)
