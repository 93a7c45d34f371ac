"""What makes a bank this bank: records, design, recipe, seed, and what is kept of the answers."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from leakscope.bank.storage import json_bytes

FORMAT = 1
"""Raised when the layout of a bank or the numbers of training change; old banks are then not reused."""


@dataclass(frozen=True)
class Identity:
    """Plain data that decides whether work on disk may be reused.

    `block_size` belongs here because another block plan changes the last bits of the answers.
    """

    records: dict[str, Any]
    design: dict[str, Any]
    recipe: dict[str, Any]
    seed: int
    signals: list[str]
    block_size: int
    format: int = FORMAT

    def as_dict(self) -> dict[str, Any]:
        """The identity as JSON-ready data."""
        return asdict(self)

    @property
    def sha256(self) -> str:
        """Sha256 of the identity as a bank stores it."""
        return hashlib.sha256(json_bytes(self.as_dict())).hexdigest()


def differences(stored: Any, wanted: Any, prefix: str = "") -> list[str]:
    """What differs between stored and wanted JSON-ready data, in words; empty when nothing does."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = list(dict.fromkeys([*wanted, *stored]))
        return [d for key in keys
                for d in differences(stored.get(key), wanted.get(key), f"{prefix}{key}.")]  # fmt: skip
    if stored == wanted:
        return []
    return [f"{prefix.rstrip('.')} is {_short(stored)} there, {_short(wanted)} now"]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 48 else f"{text[:12]}…"
