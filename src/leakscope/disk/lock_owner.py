"""Who holds a run folder, as its lock file says: a process that can be told from one with its number later.

A process is known by its number and by when it was started, counted in clock ticks from the start of the
machine's kernel: no change of the clock moves that, and a number that is used again comes with another start.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

_LONGEST_RECORD = 4096  # bytes; ours has about 200
_KINDS = {"pid": int, "host": str, "boot": str, "started": int, "since": str}


@dataclass(frozen=True)
class Holder:
    """One process of one machine.

    Attributes:
        pid: its number.
        host: its machine's name.
        boot: which start of the machine's kernel it belongs to; empty where the system does not say.
        started: clock ticks from that start to the process's own; -1 where the system does not say.
        since: when it took the lock, by the wall clock; for people only.
    """

    pid: int
    host: str
    boot: str
    started: int
    since: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}, since {self.since}"

    def as_bytes(self) -> bytes:
        """What a lock file holds."""
        return (json.dumps(asdict(self)) + "\n").encode()

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs on this machine."""
        if self.boot != _boot() or not 0 < self.pid < 1 << 31:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # somebody else's, so the number is in use
        return self.started == _started(self.pid)

    @property
    def is_of_another_machine(self) -> bool:
        """True when neither name nor start of the machine are this one's: nothing can be said of it here."""
        return self.host != platform.node() and self.boot != _boot()


def this_process() -> Holder:
    """This process, now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Holder(os.getpid(), platform.node(), _boot(), _started(os.getpid()), now)


def read_holder(path: Path) -> Holder | None:
    """Who the lock file names, alive or not; None when it is not there or says nothing readable."""
    try:
        with path.open("rb") as file:
            stored = json.loads(file.read(_LONGEST_RECORD))
        found = Holder(**{field.name: stored[field.name] for field in fields(Holder)})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if all(type(getattr(found, name)) is kind for name, kind in _KINDS.items()) else None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> int:
    """Clock ticks from the machine's start to the process's; -1 where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    return int(stat.rpartition(")")[2].split()[19])  # the name in front of it may hold anything
