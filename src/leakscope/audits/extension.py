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
from leakscope.bank.bank import IDENTITY, Bank, holds_models
from leakscope.bank.identity import DesignIdentity, Identity, other_folder, refuse_other_code
from leakscope.bank.manifest import MANIFEST
from leakscope.bank.merge import plan_merge, write_merge
from leakscope.bank.run_folder import differences, read_json, to_jsonable
from leakscope.design import make_design
from leakscope.disk.storage import write_json
from leakscope.errors import BankMismatchError, CorruptBankError, InputError

if TYPE_CHECKING:
    from leakscope.engine.local import Engine
    from leakscope.engine.request import TrainingRequest

PARTS, PARTS_FOLDER = "parts.json", "parts"
_ARRAYS = ("design.npy", "columns.npy", "units.npy", "labels.npy")
_BANK_FILES = ("signals", "blocks", *_ARRAYS, MANIFEST, IDENTITY)


@dataclass(frozen=True)
class _Part:
    """Models that were trained together."""

    models: int
    seed: int


def trained_bank(
    folder: Path, request: TrainingRequest, design: str, engine: Engine, progress: Progress
) -> Bank:
    """The bank of a population: trained, resumed, or extended where the folder holds fewer models.

    `design` is the kind of the design, by which a part's own is drawn.
    """
    from leakscope.engine.local import complete_bank

    stored = _stored_identity(folder)
    request = _like_stored(folder, request, stored)
    parts = _parts(folder, request, stored, design)
    if len(parts) == 1:
        return complete_bank(folder, request, engine, progress)
    if not (folder / PARTS).exists() or _stored_parts(folder) != parts:
        write_json(folder / PARTS, {"parts": [asdict(part) for part in parts]})
    _move_first_part(folder)
    folders = [folder / PARTS_FOLDER / str(index) for index in range(len(parts))]
    for path, part in zip(folders, parts, strict=True):
        complete_bank(path, _part_request(request, part, design), engine, progress)
    merge = plan_merge(folders)
    if _identity(folder) not in (None, merge.identity):
        _remove_bank(folder)  # it has fewer parts, all of which are under parts/
    return write_merge(merge, folder)


def _parts(folder: Path, request: TrainingRequest, stored: Identity | None, design: str) -> list[_Part]:
    """The parts of the wanted population: those on disk, then the models that are still to be trained."""
    n_wanted = request.design.n_models
    if (folder / PARTS).exists():
        parts = _stored_parts(folder)
    elif stored is not None and (folder / MANIFEST).exists():
        parts = [_Part(stored.design.models, stored.seeds[0])]
    else:
        return [_Part(n_wanted, request.seed)]
    n_stored = sum(part.models for part in parts)
    if n_wanted == n_stored and parts[0].seed == request.seed:
        return parts
    _check_same_population(folder, stored, request, parts[0], design)
    if n_wanted < n_stored:
        raise InputError(
            f"models={n_wanted}: {folder} holds {n_stored} models; ask for {n_stored} or more, or choose "
            "another folder with --out"
        )
    if n_wanted == n_stored + 1:
        raise InputError(
            f"models={n_wanted}: {folder} holds {n_stored} models, and at least 2 must be added; ask for "
            f"{n_stored + 2}"
        )
    return [*parts, _Part(n_wanted - n_stored, _seed_of_extension(request.seed, n_stored))]


def _check_same_population(
    folder: Path, stored: Identity | None, request: TrainingRequest, first: _Part, design: str
) -> None:
    """Refuses to extend a bank of other records or of another recipe, design or seed; writes nothing."""
    if stored is None:
        return
    wanted = replace(request.identity, design=stored.design)  # with the seed of the request
    differing = differences(to_jsonable(stored), to_jsonable(wanted))
    if not differing:
        of_part = DesignIdentity.of(_part_request(request, first, design).design)
        differing = differences(to_jsonable(stored.design), to_jsonable(of_part), "design.")
    if differing:
        raise BankMismatchError(
            f"{folder} holds a different bank ({'; '.join(differing[:4])}); {other_folder(of_audit=True)}"
        )


def _part_request(request: TrainingRequest, part: _Part, design: str) -> TrainingRequest:
    own = make_design(design, part.models, len(request.records), part.seed, units=request.design.units)
    return replace(request, design=own, seed=part.seed)


def _stored_parts(folder: Path) -> list[_Part]:
    try:
        parts = [_Part(int(part["models"]), int(part["seed"])) for part in read_json(folder / PARTS)["parts"]]
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptBankError(f"{folder / PARTS} is damaged: it should list `models` and `seed`") from error
    if not parts:
        raise CorruptBankError(f"{folder / PARTS} is damaged: it lists no part")
    return parts


def _stored_identity(folder: Path) -> Identity | None:
    """The identity of the first part on disk, wherever it is; None where there are no models."""
    places = (folder, folder / PARTS_FOLDER / "0")  # a killed extension may have moved it
    identities = [identity for place in places if holds_models(place) and (identity := _identity(place))]
    return next((identity for identity in identities if not identity.parts), None)


def _identity(folder: Path) -> Identity | None:
    """The identity of the bank in a folder; None where it is missing, or damaged and to be written anew."""
    try:
        return Bank(folder).identity
    except (InputError, CorruptBankError):
        return None


def _like_stored(folder: Path, request: TrainingRequest, stored: Identity | None) -> TrainingRequest:
    """The request, with the signals of the models on disk where these include all that are needed.

    Where the user vouches for their code, the request gets that, too, so that new models belong to them.
    """
    if stored is None:
        return request
    if set(stored.signals) >= set(request.signals):
        request = replace(request, signals=stored.signals)
    refuse_other_code(folder, to_jsonable(stored), to_jsonable(request.identity), request.reuse)
    code = stored.recipe.get("code") if request.reuse else None
    return replace(request, code=code) if isinstance(code, dict) else request


def _move_first_part(folder: Path) -> None:
    """Moves the run's own bank to parts/0; what a killed run moved already stays there."""
    identity = _identity(folder)
    if identity is None or identity.parts:
        return  # moved already, or the merged bank of an earlier extension
    first = folder / PARTS_FOLDER / "0"
    first.mkdir(parents=True, exist_ok=True)
    for name in _BANK_FILES:  # the identity last: while it is here, moving is not finished
        if (folder / name).exists():
            (folder / name).rename(first / name)


def _remove_bank(folder: Path) -> None:
    for name in _BANK_FILES:  # the identity last: while it is here, removing is not finished
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _seed_of_extension(seed: int, first_model: int) -> int:
    """A seed no other part has: models that share a seed draw the same random numbers."""
    digest = hashlib.sha256(f"extension {seed} {first_model}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
