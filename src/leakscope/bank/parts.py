"""The parts of a merge: read with their small files checked, and whether they fit together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.damage import REPAIR
from leakscope.bank.run_folder import differences, to_jsonable
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.types import Design


class Part(NamedTuple):
    """One of the banks to merge, its small files checked."""

    bank: Bank
    design: Design
    labels: AnyArray


def read_part(folder: Path) -> Part:
    """The bank in `folder`, finished or not; raises where there is none, or it is damaged."""
    if not (folder / IDENTITY).exists():
        raise InputError(f"{folder} holds no bank (no {IDENTITY}); name a run folder or a bank's folder")
    bank = Bank(folder)
    for damage in bank.file_damage() if bank.is_complete else []:
        raise CorruptBankError(f"{folder}: {damage}; {REPAIR}")
    try:
        part = Part(bank, bank.design(), bank.labels())
    except InputError as error:  # an unfinished bank has no checksum of its design yet
        raise CorruptBankError(f"{folder}: design or labels cannot be read ({error})") from error
    if part.design.digest != bank.identity.design.sha256:
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
    layouts = [_layout(part.bank) for part in parts]
    for part, layout in zip(parts, layouts, strict=True):
        differing = differences(layouts[0], layout, here="here")
        if differing:
            raise BankMismatchError(
                f"{part.bank.folder} and {parts[0].bank.folder} store their signals differently "
                f"({'; '.join(differing[:4])}); train both with the same version of leakscope"
            )


def check_labels(parts: Sequence[Part]) -> None:
    """Raises when parts of the same records do not have the same labels."""
    for part in parts:
        if not np.array_equal(part.labels, parts[0].labels):
            raise CorruptBankError(
                f"{part.bank.folder}: labels.npy differs from that of {parts[0].bank.folder}, "
                "although both name the same records"
            )


def check_distinct_models(parts: Sequence[Part]) -> None:
    """Raises when two parts hold the same bank, or models that drew the same random numbers."""
    for at, part in enumerate(parts):
        for other in parts[:at]:
            identity, other_identity = part.bank.identity, other.bank.identity
            if set(identity.trained_banks) & set(other_identity.trained_banks):
                raise InputError(
                    f"{_folders((other, part))} hold a bank in common and would count its models twice; "
                    "leave one of them out"
                )
            shared = sorted(set(identity.seeds) & set(other_identity.seeds))
            if shared:
                raise InputError(
                    f"{_folders((other, part))} share the seed {_listed(shared)}, so their models start "
                    "alike and cannot be references for each other; train each part with a seed of its own"
                )


def check_unfinished(parts: Sequence[Part]) -> None:
    """Raises when the parts are copies of one bank and all of them are complete."""
    if all(part.bank.is_complete for part in parts):
        seeds = _listed(parts[0].bank.identity.seeds)
        raise InputError(
            f"{_folders(parts)} are the same bank (seed {seeds}), each with all of "
            "its models, which would count twice; use one of them, or train the other with another seed"
        )


def _what_must_agree(part: Part) -> dict[str, Any]:
    identity = to_jsonable(part.bank.identity)
    return {
        **{name: identity[name] for name in ("records", "recipe", "signals")},
        "columns": part.design.n_records,
        "each model is queried about": "all records" if part.design.columns is None else "its own records",
    }


def _layout(bank: Bank) -> dict[str, list[object]]:
    """Signal -> dtype and shape of one model's values."""
    return {name: [signal.dtype, *signal.row_shape] for name, signal in bank.manifest.signals.items()}


def _folders(parts: Sequence[Part]) -> str:
    return " and ".join(str(part.bank.folder) for part in parts)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
