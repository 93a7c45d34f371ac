"""A run folder claimed and let go at once, as by a run that ended there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.bank.run_folder import locked_run_folder


def claim(folder: Path, kind: str, config: dict[str, Any]) -> None:
    with locked_run_folder(folder, kind, config):
        pass
