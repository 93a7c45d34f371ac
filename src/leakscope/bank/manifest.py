"""manifest.json: how a bank came about, and a checksum of every block of every file.

It is written last, so a bank with a manifest is complete. Its own checksum shows when it was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from leakscope.bank.identity import Count, Identity, SignalName, Some, refuse_unless
from leakscope.bank.run_folder import TRAIN_ANEW, parse_as, read_json, to_jsonable
from leakscope.disk.storage import json_bytes, write_json
from leakscope.errors import CorruptBankError

MANIFEST = "manifest.json"
BANK_FILES = ("identity.json", "design.npy", "columns.npy", "units.npy", "labels.npy")
DivergedModels = Mapping[Annotated[int, Field(ge=0)], Count]


@dataclass(frozen=True)
class BlockNotes:
    """How one block was trained.

    Attributes:
        trainer: the trainer's name; empty: nothing was trained.
        note: what did not go as planned; empty: nothing.
        seconds: training time.
        diverged_models: model -> the epoch at which it was no longer finite.
        node: the node of a cluster that trained it; empty: the machine that wrote the bank.
    """

    trainer: str = ""
    note: str = ""
    seconds: float = 0.0
    diverged_models: DivergedModels = field(default_factory=dict)
    node: str = ""


@dataclass(frozen=True)
class SignalFile:
    """One stored signal.

    Attributes:
        dtype: numpy's text for its numbers.
        shape: (models, checkpoints, columns[, classes]).
        sha256: one checksum per block.
    """

    dtype: Annotated[str, Field(pattern=r"^(\|[biu]1|[<>][iu][248]|[<>]f[248])$")]
    shape: Annotated[tuple[Count, ...], Field(min_length=3, max_length=4)]
    sha256: tuple[str, ...]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one model's values."""
        return self.shape[1:]

    @property
    def row_bytes(self) -> int:
        """Bytes of one model's values."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.row_shape, dtype=np.int64))


@dataclass(frozen=True)
class Provenance:
    """How a bank came about; not part of its identity.

    Attributes:
        engine: what trained it; None: nothing was trained.
        device: where.
        note: what did not go as planned, or how else the bank was made.
        versions: package -> version.
        parts: of a merged bank, how each finished part came about.
    """

    engine: str | None = None
    device: str | None = None
    note: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[PartNotes, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartNotes(Provenance):
    """How one part of a merged bank came about.

    Attributes:
        identity: sha256 of its identity.
        created: when it was finished.
        seconds: training time.
    """

    identity: str
    created: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Manifest(Provenance):
    """How a complete bank came about, and the checksums of its files.

    Attributes:
        created: when it was finished.
        seconds: training time, over all runs it took.
        diverged_models: model -> the epoch at which it was no longer finite.
        blocks: how each block was trained.
        files: identity, design and labels -> sha256.
        signals: name -> the stored signal.
    """

    created: str
    seconds: float
    diverged_models: DivergedModels
    blocks: Some[BlockNotes]
    files: Mapping[str, str]
    signals: Annotated[Mapping[SignalName, SignalFile], Field(min_length=1)]

    def __post_init__(self) -> None:
        refuse_unless({
            "files": "identity.json" in self.files and set(self.files) <= set(BANK_FILES),
            "signals": all(len(signal.sha256) == len(self.blocks) for signal in self.signals.values()),
        })  # fmt: skip


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes manifest.json, with its own checksum."""
    content = to_jsonable(manifest)
    write_json(folder / MANIFEST, {**content, "sha256": hashlib.sha256(json_bytes(content)).hexdigest()})


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete bank.

    Raises:
        CorruptBankError: it was changed, or no bank could have written it.
    """
    path = folder / MANIFEST
    try:
        content = read_json(path)
    except CorruptBankError as error:
        raise CorruptBankError(f"{error}; {TRAIN_ANEW}") from error
    if content.pop("sha256", None) != hashlib.sha256(json_bytes(content)).hexdigest():
        raise CorruptBankError(
            f"{path} does not match its own checksum, so nothing in the bank can be checked; {TRAIN_ANEW}"
        )
    return parse_as(Manifest, content, path)


def check_fit(identity: Identity, manifest: Manifest, path: Path) -> None:
    """Raises CorruptBankError when the two do not describe the same bank."""
    design, shapes = identity.design, [signal.shape for signal in manifest.signals.values()]
    try:
        refuse_unless({
            "blocks": len(manifest.blocks) == len(identity.blocks),
            "signals": set(manifest.signals) == set(identity.signals),
            "signals' shapes": all((s[0], s[2]) == (design.models, design.columns) for s in shapes),
            "diverged_models": all(model < design.models for model in manifest.diverged_models),
        })  # fmt: skip
    except ValueError as error:
        raise CorruptBankError(f"{path} is damaged: {error}; {TRAIN_ANEW}") from error
