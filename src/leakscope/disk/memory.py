"""Memory that one array gave back, for the next one.

The allocator of Linux (glibc) returns arrays above some 100 KB to the system as soon as they are freed, and
the system clears every page of the next one. Judging the demo makes thousands of such arrays; a fifth to a
third of its processor time went into clearing them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_MOST_FREE = 64 << 20
"""Bytes that stay with this process though nothing uses them, at most."""
_LARGEST = 16 << 20
"""A larger array is returned to the system when it is freed."""
_GIVEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def is_left_to_the_user(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment says how memory is given back."""
    return any(name in environment for name in _GIVEN)


@cache
def reuse_memory() -> bool:
    """Lets arrays reuse what others have freed, in the whole process; false where that is not possible."""
    if is_left_to_the_user():
        return False
    try:
        choose = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another system, or another allocator
        return False
    return all([choose(_TRIM_THRESHOLD, _MOST_FREE), choose(_MMAP_THRESHOLD, _LARGEST)])
