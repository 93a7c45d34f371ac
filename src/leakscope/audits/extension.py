"""More models for a finished run.

A population of 48 models that extends one of 32 is two parts: the 32, and 16 more with a design and a seed of
their own. Each part is an ordinary bank under `parts/`, resumed and repaired like any other; the bank of the
run is the parts merged. `parts.json` is written first, so that an interrupted extension resumes.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.audits.source import Progress
from leakscope.bank.bank import IDENTITY, Bank
from leakscope.bank.manifest import MANIFEST
from leakscope.bank.merge import plan_merge, write_merge
from leakscope.bank.run_folder import read_json
from leakscope.design import make_design
from leakscope.disk.storage import write_json
from leakscope.errors import InputError

if TYPE_CHECKING:
    from leakscope.engine.local import Engine
    from leakscope.engine.request import TrainingRequest

PARTS, PARTS_FOLDER = "parts.json", "parts"
_BANK_FILES = ("signals", "blocks", "design.npy", "columns.npy", "labels.npy", MANIFEST, IDENTITY)


@dataclass(frozen=True)
class _Part:
    """Models that were trained together."""

    models: int
    seed: int


def trained_bank(
    folder: Path, request: TrainingRequest, design: str, engine: Engine, progress: Progress
) -> Bank:
    """The bank of a population: trained, resumed, or extended where the folder holds fewer models.

    Args:
        folder: the run folder.
        request: the models to train.
        design: kind of the design, by which a part's own is drawn.
        engine: training backend.
        progress: called with the models' worth of training that is done.
    """
    from leakscope.engine.local import complete_bank

    stored = Bank.open(folder) if (folder / MANIFEST).exists() and (folder / IDENTITY).exists() else None
    request = _with_stored_signals(request, stored)
    parts = _parts(folder, request, stored)
    if len(parts) == 1:
        return complete_bank(folder, request, engine, progress)
    if not (folder / PARTS).exists() or _stored_parts(folder) != parts:
        write_json(folder / PARTS, {"parts": [asdict(part) for part in parts]})
    _move_first_part(folder)
    folders = [folder / PARTS_FOLDER / str(index) for index in range(len(parts))]
    for path, part in zip(folders, parts, strict=True):
        own = make_design(design, part.models, len(request.records), part.seed)
        complete_bank(path, replace(request, design=own, seed=part.seed), engine, progress)
    merge = plan_merge(folders)
    if (folder / IDENTITY).exists() and Bank(folder).identity != merge.identity:
        _remove_bank(folder)  # of fewer parts, all of which are under parts/
    return write_merge(merge, folder)


def _parts(folder: Path, request: TrainingRequest, stored: Bank | None) -> list[_Part]:
    """The parts of the wanted population: those on disk, then the models that are still to be trained."""
    n_wanted = request.design.n_models
    if (folder / PARTS).exists():
        parts = _stored_parts(folder)
    elif stored is not None and stored.identity.seed == request.seed:
        parts = [_Part(stored.identity.design.models, request.seed)]
    else:
        return [_Part(n_wanted, request.seed)]
    n_stored = sum(part.models for part in parts)
    if n_wanted < n_stored:
        raise InputError(
            f"models={n_wanted}: {folder} holds {n_stored} models; ask for {n_stored} or more, or choose "
            "another folder with --out"
        )
    if n_wanted > n_stored:
        parts = [*parts, _Part(n_wanted - n_stored, _seed_of_extension(request.seed, n_stored))]
    return parts


def _stored_parts(folder: Path) -> list[_Part]:
    return [_Part(**part) for part in read_json(folder / PARTS)["parts"]]


def _with_stored_signals(request: TrainingRequest, stored: Bank | None) -> TrainingRequest:
    """The request, with the signals of the bank on disk where these include all that are needed."""
    names = () if stored is None else stored.identity.signals
    return replace(request, signals=names) if set(names) >= set(request.signals) else request


def _move_first_part(folder: Path) -> None:
    """Moves the run's own bank to parts/0; what a killed run moved already stays there."""
    if (folder / IDENTITY).exists() and Bank(folder).identity.parts:
        return  # the merged bank of an earlier extension
    first = folder / PARTS_FOLDER / "0"
    first.mkdir(parents=True, exist_ok=True)
    for name in _BANK_FILES:  # the identity last: while it is here, moving is not finished
        if (folder / name).exists():
            (folder / name).rename(first / name)


def _remove_bank(folder: Path) -> None:
    for name in reversed(_BANK_FILES):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _seed_of_extension(seed: int, first_model: int) -> int:
    """A seed no other part has: models that share a seed draw the same random numbers."""
    digest = hashlib.sha256(f"extension {seed} {first_model}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
