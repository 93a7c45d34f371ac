"""Merges several banks into one: a large population can be trained in several runs, on several machines.

The identities of the parts decide which of two cases applies:

* *Other models*: banks of the same records, recipe and signals with different seeds are stacked in the
  order given. A model's randomness is (run seed, model index, purpose), so two parts with one seed
  would hold models with the same start and the same order of batches, and under some designs the very
  same model twice: a target among its own references. Hence every part needs a seed of its own.
* *Copies of one bank* (one identity) that were trained further in different places: the union of
  their blocks. An ordinary run trains the blocks that no copy holds.

Nothing is written before all parts are known to fit. Blocks are then copied one at a time, each checked
against its checksum while it is read, through the same atomic steps as trained blocks: a merge that was
killed resumes when it is called again, and a damaged merged bank is repaired from its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.damage import REPAIR
from leakscope.bank.identity import DesignIdentity, Identity
from leakscope.bank.manifest import BlockNotes, PartNotes, Provenance
from leakscope.bank.run_folder import RUN, differences, to_jsonable
from leakscope.disk.lock import folder_lock
from leakscope.disk.storage import is_temporary
from leakscope.errors import BankMismatchError, CorruptBankError, InputError
from leakscope.types import Design, digest_arrays

_WRITTEN_BEFORE_IDENTITY = {"design.npy", "columns.npy", "units.npy", "labels.npy"}


class Part(NamedTuple):
    """One of the banks to merge, its small files checked."""

    bank: Bank
    design: Design
    labels: AnyArray


class Source(NamedTuple):
    """Where a block of the merged bank comes from, and the merged index of its part's model 0."""

    bank: Bank
    block: int
    first_model: int


@dataclass(frozen=True, eq=False)
class Merge:
    """Parts that fit together, and what they make; nothing is written yet.

    Attributes:
        parts: in the order given.
        identity: of the merged bank; that of every part where the parts are copies of one bank.
        design: which records each model was trained on, for all models.
        labels: labels of the records.
        sources: one per block of the merged bank; None where no copy holds the block.
    """

    parts: tuple[Part, ...]
    identity: Identity
    design: Design
    labels: AnyArray
    sources: tuple[Source | None, ...]

    @property
    def is_of_copies(self) -> bool:
        """True when the parts are copies of one bank, false when their models are stacked."""
        return self.identity == self.parts[0].bank.identity

    @property
    def missing(self) -> tuple[int, ...]:
        """Blocks that no copy holds."""
        return tuple(block for block, source in enumerate(self.sources) if source is None)


def plan_merge(folders: Sequence[Path]) -> Merge:
    """What merging the banks in these folders would make.

    Args:
        folders: run folders or bank folders, at least two.

    Raises:
        InputError: they do not fit together; the message says which and why.
        CorruptBankError: identity, design or labels of a part are damaged.
    """
    if len(folders) < 2:
        raise InputError(f"parts={[str(folder) for folder in folders]}: give at least two folders to merge")
    resolved = [folder.resolve() for folder in folders]
    for at, folder in enumerate(folders):
        if resolved[at] in resolved[:at]:
            raise InputError(f"{folder} is named twice; name every part once")
    parts = tuple(_read_part(folder) for folder in folders)
    if len({part.bank.identity.sha256 for part in parts}) == 1:
        return _union(parts)
    return _stack(parts)


def write_merge(merge: Merge, out: Path) -> Bank:
    """Copies what is not yet in `out`, and finishes the bank if no block is missing.

    Args:
        merge: from `plan_merge`.
        out: the bank's folder; resumes an interrupted merge, repairs a damaged merged bank.
    """
    check_free(out, merge)
    with folder_lock(out):
        return _copy_into(out, merge)


def _copy_into(out: Path, merge: Merge) -> Bank:
    bank = Bank.create(out, merge.identity, merge.design, merge.labels)
    if bank.is_complete and not bank.damage():
        return bank
    pending = bank.pending()
    absent = sorted(set(pending) & set(merge.missing))
    if absent and bank.is_complete:
        raise CorruptBankError(
            f"{out}: block {absent[0]} is damaged and no part holds it; run the command that trained the bank"
        )
    for block in pending:
        source = merge.sources[block]
        if source is not None:
            bank.add_block(block, *_renumbered(source))
    if not absent:
        bank.finish(_provenance(merge))
    return bank


def check_free(out: Path, merge: Merge) -> None:
    """Raises when `out` is one of the parts, or holds something that is neither a run nor a bank."""
    if out.resolve() in [part.bank.folder.resolve() for part in merge.parts]:
        raise InputError(f"out={str(out)!r} is one of the parts; choose another folder with --out")
    if not out.is_dir() or (out / IDENTITY).exists() or (out / RUN).exists():
        return  # Bank.create refuses another bank, and `locked_run_folder` another run
    foreign = {path.name for path in out.iterdir() if not is_temporary(path)} - _WRITTEN_BEFORE_IDENTITY
    if foreign:
        raise InputError(f"{out} is not empty and holds no bank; choose another folder with --out")


def _union(parts: tuple[Part, ...]) -> Merge:
    """Copies of one bank: each block from the first copy that holds it."""
    first = parts[0]
    _check_unfinished(parts)
    _check_labels(parts)
    sources = []
    for block in range(len(first.bank.blocks)):
        holders = [part.bank for part in parts if part.bank.has_block(block)]
        sources.append(Source(holders[0], block, 0) if holders else None)
    return Merge(parts, first.bank.identity, first.design, first.labels, tuple(sources))


def _stack(parts: tuple[Part, ...]) -> Merge:
    """Banks of different models: one after the other."""
    _check_alike(parts)
    _check_labels(parts)
    _check_distinct_models(parts)
    in_mask = np.concatenate([part.design.in_mask for part in parts])
    columns = [part.design.columns for part in parts if part.design.columns is not None]
    design = Design(in_mask, np.concatenate(columns) if columns else None, units=parts[0].design.units)
    first_models = np.cumsum([0, *(part.design.n_models for part in parts)])
    sources = [
        Source(part.bank, block, int(first_model))
        for part, first_model in zip(parts, first_models[:-1], strict=True)
        for block in range(len(part.bank.blocks))
    ]
    return Merge(parts, _merged_identity(parts, design), design, parts[0].labels, tuple(sources))


def _merged_identity(parts: Sequence[Part], design: Design) -> Identity:
    identities = [part.bank.identity for part in parts]
    return replace(
        identities[0],
        design=DesignIdentity.of(design),
        seed=tuple(seed for identity in identities for seed in identity.seeds),
        block_size=tuple(len(models) for identity in identities for models in identity.blocks),
        parts=tuple(sha for identity in identities for sha in identity.trained_banks),
    )


def _renumbered(source: Source) -> tuple[dict[str, AnyArray], BlockNotes]:
    """A block's signals, and its notes with models renumbered."""
    signals, notes = source.bank.read_block(source.block)
    diverged = {model + source.first_model: epoch for model, epoch in notes.diverged_models.items()}
    return signals, replace(notes, diverged_models=diverged)


def _provenance(merge: Merge) -> Provenance:
    """What was merged, and how each finished part came about."""
    what = "blocks of copies of one bank" if merge.is_of_copies else "banks with seeds of their own"
    finished = [part.bank for part in merge.parts if part.bank.is_complete]
    return Provenance(
        note=f"merged from {len(merge.parts)} parts: {what}", parts=tuple(map(_part_notes, finished))
    )


def _part_notes(bank: Bank) -> PartNotes:
    manifest = bank.manifest
    inherited = {field.name: getattr(manifest, field.name) for field in fields(Provenance)}
    return PartNotes(
        **inherited, identity=bank.identity.sha256, created=manifest.created, seconds=manifest.seconds
    )


def _read_part(folder: Path) -> Part:
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


def _check_alike(parts: Sequence[Part]) -> None:
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


def _check_labels(parts: Sequence[Part]) -> None:
    """Raises when parts of the same records do not have the same labels."""
    for part in parts:
        if not np.array_equal(part.labels, parts[0].labels):
            raise CorruptBankError(
                f"{part.bank.folder}: labels.npy differs from that of {parts[0].bank.folder}, "
                "although both name the same records"
            )


def _check_distinct_models(parts: Sequence[Part]) -> None:
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


def _check_unfinished(parts: Sequence[Part]) -> None:
    """Raises when the parts are copies of one bank and all of them are complete."""
    if all(part.bank.is_complete for part in parts):
        seeds = _listed(parts[0].bank.identity.seeds)
        raise InputError(
            f"{_folders(parts)} are the same bank (seed {seeds}), each with all of "
            "its models, which would count twice; use one of them, or train the other with another seed"
        )


def _what_must_agree(part: Part) -> dict[str, object]:
    identity = to_jsonable(part.bank.identity)
    return {
        **{name: identity[name] for name in ("records", "recipe", "signals")},
        "columns": part.design.n_records,
        "each model is queried about": "all records" if part.design.columns is None else "its own records",
        "memberships are drawn for": _drawn_for(part.design),
    }


def _drawn_for(design: Design) -> str:
    """Who is a member, so that banks of other units differ."""
    if design.units is None:
        return "single records"
    return f"{design.of_units.n_records:,} units ({digest_arrays(design.units)[:8]})"


def _layout(bank: Bank) -> dict[str, list[object]]:
    """Signal -> dtype and shape of one model's values."""
    return {name: [signal.dtype, *signal.row_shape] for name, signal in bank.manifest.signals.items()}


def _folders(parts: Sequence[Part]) -> str:
    return " and ".join(str(part.bank.folder) for part in parts)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
