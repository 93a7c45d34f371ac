"""Where files lie that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$LEAKSCOPE_CACHE, else the user's cache folder."""
    cache = os.environ.get("LEAKSCOPE_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/leakscope"
    return Path(cache).expanduser()
