"""Memory that one array gave back, for the next one; and how often Python looks for garbage.

The allocator of Linux (glibc) returns arrays above some 100 KB to the system as soon as they are freed, and
the system clears every page of the next one. Judging the demo makes thousands of such arrays; a fifth to a
third of its processor time went into clearing them.

Python looks for objects that nothing but each other refers to after every 700 new ones. Libraries make a
million objects while they are loaded, none of them garbage; looking through them again and again took a
twentieth of a small audit.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_MOST_FREE = 64 << 20
"""Bytes that stay with this process though nothing uses them, at most."""
_LARGEST = 16 << 20
"""A larger array is returned to the system when it is freed."""
_NEW_OBJECTS = 100_000
"""Between two looks for garbage."""
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


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Python looks for garbage rarely in the block."""
    before = gc.get_threshold()
    if 0 < before[0] < _NEW_OBJECTS:  # 0: never, as the user wants it
        gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
