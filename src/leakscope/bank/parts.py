"""The parts of a merge: read with their small files checked, and whether they fit together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.identity import AnyIdentity, differences, identity_from
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.types import Design

_ALIKE = ("records", "recipe", "signals")


class Part(NamedTuple):
    """One of the banks to merge, its small files checked."""

    bank: Bank
    identity: AnyIdentity
    design: Design
    labels: AnyArray


def read_part(folder: Path) -> Part:
    """The bank in `folder`, finished or not; raises where there is none, or it is damaged."""
    if not (folder / IDENTITY).exists():
        raise InputError(f"{folder} holds no bank (no {IDENTITY}); name a run folder or a bank's folder")
    bank = Bank(folder)
    for damage in bank.file_damage() if bank.is_complete else []:
        raise CorruptBankError(f"{folder}: {damage}; run the command that made it again, which repairs it")
    identity = identity_from(bank.identity, folder / IDENTITY)
    try:
        part = Part(bank, identity, bank.design(), bank.labels())
    except InputError as error:  # a design that is none; an unfinished bank has no checksum of it yet
        raise CorruptBankError(f"{folder}: design or labels cannot be read ({error})") from error
    if part.design.digest != identity.design["sha256"]:
        raise CorruptBankError(f"{folder}: design.npy is not the design that {IDENTITY} names")
    return part


def check_alike(parts: Sequence[Part]) -> None:
    """Raises when a part is unfinished, or has other records, recipe or signals than the first."""
    for part in parts:
        folder = part.bank.folder
        differing = differences(_what_must_agree(parts[0]), _what_must_agree(part), here="here")
        if differing:
            raise BankMismatchError(
                f"{folder} does not fit {parts[0].bank.folder} ({'; '.join(differing[:4])}); "
                "merge banks of the same records, recipe and signals"
            )
        if not part.bank.is_complete:
            raise InputError(f"{folder} holds an unfinished bank; run the command that made it to finish it")
    stored = [_layout(part.bank) for part in parts]
    for part, layout in zip(parts, stored, strict=True):
        differing = differences(stored[0], layout, here="here")
        if differing:
            raise BankMismatchError(
                f"{part.bank.folder} stores its signals otherwise than {parts[0].bank.folder} "
                f"({'; '.join(differing[:4])}); train both with the same version of leakscope"
            )


def check_labels(parts: Sequence[Part]) -> None:
    """Raises when parts of the same records do not have the same labels."""
    for part in parts:
        if not np.array_equal(part.labels, parts[0].labels):
            raise CorruptBankError(
                f"{part.bank.folder}: labels.npy differs from that of {parts[0].bank.folder}, "
                "though both are said to be of the same records"
            )


def check_distinct_models(parts: Sequence[Part]) -> None:
    """Raises when two parts hold a same bank, or models that drew the same random numbers."""
    for at, part in enumerate(parts):
        for other in parts[:at]:
            if set(part.identity.parts) & set(other.identity.parts):
                raise InputError(
                    f"{_named((other, part))} hold a bank in common and would count its models twice; "
                    "leave one of them out"
                )
            shared = sorted(set(part.identity.seeds) & set(other.identity.seeds))
            if shared:
                raise InputError(
                    f"{_named((other, part))} share the seed {_listed(shared)}, so their models start "
                    "alike and cannot judge each other; train each part with a seed of its own"
                )


def check_unfinished(parts: Sequence[Part]) -> None:
    """Raises when copies of one bank have nothing to add to each other, each being whole."""
    if all(part.bank.is_complete for part in parts):
        raise InputError(
            f"{_named(parts)} are the same bank (seed {_listed(parts[0].identity.seeds)}), each with all of "
            "its models, which would count twice; use one of them, or train the other with another seed"
        )


def _what_must_agree(part: Part) -> dict[str, Any]:
    asked = "its own records" if part.design.columns is not None else "all records"
    alike = {name: getattr(part.identity, name) for name in _ALIKE}
    return {**alike, "columns": part.design.n_records, "each model is asked about": asked}


def _layout(bank: Bank) -> dict[str, Any]:
    """Signal -> dtype and shape of one model's answers."""
    entries = bank.manifest["signals"]
    return {name: [entry["dtype"], *entry["shape"][1:]] for name, entry in entries.items()}


def _named(parts: Sequence[Part]) -> str:
    return " and ".join(str(part.bank.folder) for part in parts)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
