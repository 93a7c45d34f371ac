"""The machine's memory, the limit for sizes that files declare."""

from __future__ import annotations

import os

_UNKNOWN = 1 << 40


def machine_memory() -> int:
    """Bytes of main memory; a tebibyte where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
