"""What makes a bank this bank: records, design, recipe, seed, and which signals are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Field

from leakscope.array_types import IntArray
from leakscope.bank.run_folder import parse_as, to_jsonable
from leakscope.disk.storage import json_bytes
from leakscope.errors import BankMismatchError, InputError
from leakscope.types import Design, Records

FORMAT = 2
"""Raised when the layout of a bank or the numbers of training change; banks of another format are refused."""

T = TypeVar("T")
# Checked where a file is read: no number in it becomes a size, and no name a path, that a bank cannot have.
Some = Annotated[tuple[T, ...], Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=1 << 62)]
Seed = Annotated[int, Field(ge=0)]
SignalName = Annotated[str, Field(max_length=200, pattern=r"^([a-z0-9_]{1,64}|\w+(\.\w+)*:\w+(\.\w+)*)$")]


@dataclass(frozen=True)
class RecordsIdentity:
    """Name, number and sha256 of the records."""

    name: str
    records: int
    sha256: str

    @classmethod
    def of(cls, records: Records) -> RecordsIdentity:
        """The identity of these records."""
        return cls(records.name, len(records), records.digest)


@dataclass(frozen=True)
class DesignIdentity:
    """Number of models, number of records each is queried about, and sha256 of the design.

    Attributes:
        units: number of units that memberships were drawn for; None: every record is a unit.
    """

    models: Annotated[Count, Field(le=1_000_000)]
    columns: Count
    sha256: str
    units: Count | None = None

    @classmethod
    def of(cls, design: Design) -> DesignIdentity:
        """The identity of this design."""
        units = None if design.units is None else design.of_units.n_records
        return cls(design.n_models, design.n_records, design.digest, units)


@dataclass(frozen=True)
class Identity:
    """Decides whether a bank on disk may be reused.

    A merged bank holds the models of several banks of the same records, recipe and signals, in order.

    Attributes:
        records: the records.
        design: which records each model was trained on.
        recipe: a description of the training in which different recipes differ; `evaluated_epochs` are the
            epochs of the checkpoints.
        seed: run seed; of a merged bank, one per part.
        signals: names of the stored signals, sorted.
        block_size: models per block; of a merged bank, one number per block. It belongs to the identity
            because another block plan changes the last bits of the outputs.
        parts: of a merged bank, the sha256 of the identity of every trained bank in it.
        format: version of the layout on disk.
    """

    records: RecordsIdentity
    design: DesignIdentity
    recipe: Mapping[str, object]
    seed: Seed | Some[Seed]
    signals: Some[SignalName]
    block_size: Count | Some[Count]
    parts: tuple[str, ...] = ()
    format: int = FORMAT

    def __post_init__(self) -> None:
        sizes, epochs = self.block_size, self.recipe.get("evaluated_epochs")
        refuse_unless({
            "block_size": isinstance(sizes, int) or sum(sizes) == self.design.models,
            "recipe.evaluated_epochs": isinstance(epochs, list | tuple)
            and bool(epochs)
            and all(type(epoch) is int and epoch > 0 for epoch in epochs),
        })  # fmt: skip

    @property
    def sha256(self) -> str:
        """Sha256 of identity.json."""
        return hashlib.sha256(json_bytes(to_jsonable(self))).hexdigest()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Run seeds of the trained banks."""
        return self.seed if isinstance(self.seed, tuple) else (self.seed,)

    @property
    def trained_banks(self) -> tuple[str, ...]:
        """Sha256 of the identities of the trained banks: its parts, or itself."""
        return self.parts or (self.sha256,)

    @property
    def evaluated_epochs(self) -> tuple[int, ...]:
        """Epochs of the checkpoints."""
        return tuple(self.recipe["evaluated_epochs"])  # type: ignore[arg-type]

    @property
    def blocks(self) -> list[IntArray]:
        """The model indices of each block."""
        n_models, size = self.design.models, self.block_size
        if isinstance(size, tuple):
            return np.split(np.arange(n_models), np.cumsum(size)[:-1])
        return [np.arange(a, min(a + size, n_models)) for a in range(0, n_models, size)]


def parse_identity(content: Mapping[str, object], path: Path) -> Identity:
    """The identity in the content of identity.json; `path` is named in errors.

    Raises:
        InputError: the bank has another format.
        CorruptBankError: no bank could have written it.
    """
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path} is of a bank of format {content.get('format')}, this leakscope reads format {FORMAT}; "
            "train the bank anew"
        )
    return parse_as(Identity, content, path)


def without_code(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of identity.json, except for the identity of the user's code."""
    recipe = content.get("recipe")
    if not isinstance(recipe, Mapping):
        return dict(content)
    return {**content, "recipe": {name: value for name, value in recipe.items() if name != "code"}}


def other_folder(of_audit: bool) -> str:
    """What to do where a folder holds something else; an audit can start over in it."""
    fresh = " (`leakscope audit --fresh` does, fresh=True in Python)" if of_audit else ""
    return f"choose another folder with --out, or remove this one{fresh}"


def refuse_other_code(
    folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any], reuse: bool | None
) -> None:
    """Refuses models of other code, or of code that cannot be compared, unless the user vouches for them.

    Args:
        folder: of the models.
        stored: content of their identity.json.
        wanted: content of the identity.json that belongs to the code of now.
        reuse: whether the user vouches for them; None: that is not offered.
    """
    there, now = (content["recipe"].get("code") or {} for content in (stored, wanted))
    changes, unknown = _code_changes(there, now), now.get("unknown") or []
    if reuse or not (changes or unknown):
        return
    remedies = other_folder(of_audit=False)
    if reuse is not None:
        remedies = (
            "add --reuse (reuse=True in Python) if the code trains the same models, --fresh (fresh=True) to "
            "train them anew, or choose another folder with --out"
        )
    what = f"were trained by other code ({'; '.join(changes[:4])})"
    if not changes:
        what = f"may have been trained by other code ({'; '.join(unknown[:4])})"
    raise BankMismatchError(f"the models in {folder} {what}; {remedies}")


def _code_changes(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two identities of code, in words."""
    changes = []
    for kind in ("modules", "values", "packages"):
        before, after = there.get(kind) or {}, now.get(kind) or {}
        for name in sorted({*before, *after}):
            if before.get(name) == after.get(name):
                continue
            versions = f" from {before.get(name, 'none')} to {after.get(name, 'none')}"
            what = f"module {name}" if kind == "modules" else name
            changes.append(f"{what} has changed{versions if kind == 'packages' else ''}")
    return changes


def refuse_unless(checks: Mapping[str, bool]) -> None:
    """Raises ValueError, naming every check that failed."""
    wrong = [name for name, is_fine in checks.items() if not is_fine]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be what a bank has")
