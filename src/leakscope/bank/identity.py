"""What makes a bank this bank: records, design, recipe, seed, and what is kept of the answers."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from leakscope.disk.storage import json_bytes
from leakscope.errors import CorruptBankError, InputError

FORMAT = 1
"""Raised when the layout of a bank or the numbers of training change; old banks are then not reused."""


@dataclass(frozen=True)
class _Addressed:
    """What every identity can say of itself."""

    def as_dict(self) -> dict[str, Any]:
        """The identity as JSON-ready data."""
        return asdict(self)

    @property
    def sha256(self) -> str:
        """Sha256 of the identity as a bank stores it."""
        return hashlib.sha256(json_bytes(self.as_dict())).hexdigest()


@dataclass(frozen=True)
class Identity(_Addressed):
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

    @property
    def parts(self) -> list[str]:
        """Identities of the banks trained for it: its own."""
        return [self.sha256]

    @property
    def seeds(self) -> list[int]:
        """Run seeds of the parts."""
        return [self.seed]


@dataclass(frozen=True)
class MergedIdentity(_Addressed):
    """Several banks of the same records, recipe and signals as one, in the order of `parts`.

    Attributes:
        seed: the parts' run seeds, one each.
        block_size: number of models of every block: the parts' blocks one after the other.
        parts: sha256 of the identities of the trained banks; a merged part counts as its own parts.
    """

    records: dict[str, Any]
    design: dict[str, Any]
    recipe: dict[str, Any]
    seed: list[int]
    signals: list[str]
    block_size: list[int]
    parts: list[str]
    format: int = FORMAT

    @property
    def seeds(self) -> list[int]:
        """Run seeds of the parts."""
        return self.seed


AnyIdentity = Identity | MergedIdentity


def identity_from(stored: dict[str, Any], path: Path) -> AnyIdentity:
    """The identity that `as_dict` described; `path` is where it was read."""
    if stored.get("format") != FORMAT:
        raise InputError(
            f"{path} is of a bank of format {stored.get('format')}, this leakscope's is {FORMAT}; "
            "train the bank anew"
        )
    kind = MergedIdentity if "parts" in stored else Identity
    if set(stored) != {field.name for field in fields(kind)}:
        raise CorruptBankError(f"{path} is damaged: not the fields of an identity")
    return kind(**stored)


def differences(stored: Any, wanted: Any, prefix: str = "", here: str = "now") -> list[str]:
    """What differs between stored and wanted JSON-ready data, in words; empty when nothing does.

    `here` is what the wanted data are called, beside the stored ones "there".
    """
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = list(dict.fromkeys([*wanted, *stored]))
        return [d for key in keys
                for d in differences(stored.get(key), wanted.get(key), f"{prefix}{key}.", here)]  # fmt: skip
    if stored == wanted:
        return []
    return [f"{prefix.rstrip('.')} is {_short(stored)} there, {_short(wanted)} {here}"]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 48 else f"{text[:12]}…"
