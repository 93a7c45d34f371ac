"""The JSON files of a run folder, and `run.json` among them: the kind of run and its config.

It is written first, so that a later command on the same folder either is the same run, which resumes, or is
refused with what differs. `verify` needs nothing else to compute the results again. While a run writes, the
folder is locked (`disk/lock.py`).

Checksums reveal accidents, not intent: whoever changes a run can change its checksums with it. So a file is
checked in full before any number in it becomes a size, or any name a path.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from leakscope.array_types import AnyArray
from leakscope.disk.lock import folder_lock
from leakscope.disk.npy import ArrayFileError, load_array
from leakscope.disk.storage import (
    LOCK,
    is_temporary,
    open_regular,
    refuse_irregular,
    sha256_of,
    storage_errors,
    sweep_temporaries,
    watched,
    write_json,
)
from leakscope.errors import BankMismatchError, CorruptBankError, InputError

T = TypeVar("T")
_LEAVES = frozenset({str, int, bool, type(None)})
RUN, RESULTS, SEAL = "run.json", "results.json", "sha256.json"
_BEFORE_THE_FIRST_MODEL = (RUN, "identity.json", "design.npy", "columns.npy", "units.npy", "labels.npy")
_OURS = ("identity.json", SEAL, RESULTS)

NOT_OURS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, MemoryError,
            StopIteration, RecursionError, OSError)  # fmt: skip
"""What computing with forged or damaged files of a run folder may raise."""
_THERE_AND_HERE = "{name} is {stored} there, {wanted} {here}"
_LARGEST_JSON = 1 << 28
"""Bytes. The largest results.json that we have seen has 0.6 MB; parsing 256 MB takes a few GB of memory."""
TRAIN_ANEW = "remove it to train the bank anew"


@contextmanager
def locked_run_folder(folder: Path, kind: str, config: dict[str, Any]) -> Iterator[None]:
    """Reserves `folder` for this run until the end of the block.

    Raises:
        FolderInUseError: another run is using it.
        BankMismatchError: the folder holds another run.
        InputError: it holds something else altogether.
    """
    wanted = to_jsonable({"kind": kind, "config": config})
    _is_written(folder, wanted)  # refuses another run before anything is written
    with folder_lock(folder):
        with storage_errors(folder):
            if not (folder / RUN).exists() and not _may_become_run(folder):
                raise InputError(f"{folder} is not empty and holds no run; choose another with --out")
            refuse_irregular(folder)
            sweep_temporaries(folder)
            if not _is_written(folder, wanted):
                write_json(folder / RUN, wanted)
        with sealed(folder):
            yield


@contextmanager
def sealed(folder: Path) -> Iterator[None]:
    """Writes the checksums of a finished run's files at the end of the block; `verify` compares them.

    A file that the block did not write keeps the checksum it had, so that earlier damage stays visible.
    """
    written: set[Path] = set()
    with watched(written.add):
        yield
    if not (folder / RESULTS).exists():
        return
    try:
        earlier = read_json(folder / SEAL)
    except (InputError, CorruptBankError):
        earlier = {}
    checksums = {}
    for path in files_outside_banks(folder):
        name = path.relative_to(folder).as_posix()
        is_new = name not in earlier or not written.isdisjoint((path, *path.parents))
        checksums[name] = sha256_of(path) if is_new else earlier[name]
    write_json(folder / SEAL, checksums)


def files_outside_banks(folder: Path) -> list[Path]:
    """The files of a run, except hidden ones and those whose checksums a bank's manifest has."""
    banks = {path.parent for path in folder.rglob("manifest.json")}
    in_banks = {bank / name for bank in banks for name in ("manifest.json", "identity.json", "signals")}
    in_banks |= {path for bank in banks for path in bank.glob("*.npy")}
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path != folder / SEAL
        and not path.name.startswith(".")
        and in_banks.isdisjoint((path, path.parent))
    )


def _may_become_run(folder: Path) -> bool:
    """True for an empty folder, and for a run whose run.json was removed: it is written like a damaged one.

    A folder of runs is none: each of its folders has a run.json of its own.
    """
    if all(is_temporary(path) for path in folder.iterdir()):
        return True
    parts = (path for path in folder.iterdir() if path.is_dir() and not (path / RUN).exists())
    return any((place / name).exists() for place in (folder, *parts) for name in _OURS)


def _is_written(folder: Path, wanted: dict[str, Any]) -> bool:
    """True when run.json says the same; false when it is damaged, or nothing has been trained."""
    try:
        kind, config = read_run(folder)
    except (InputError, CorruptBankError):
        return False
    differing = differences({"kind": kind, "config": config}, wanted)
    if differing and not _holds_work(folder):
        return False
    if differing:
        raise BankMismatchError(
            f"{folder} holds a different run ({'; '.join(differing[:4])}); "
            "choose another folder with --out, or remove this one"
        )
    return True


def clear_run_folder(folder: Path) -> None:
    """Removes what a run folder holds, so that the run which has reserved it starts over."""
    with storage_errors(folder):
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != RUN and not path.name.startswith(LOCK):
                path.unlink()


def _holds_work(folder: Path) -> bool:
    """True when there is more than what a run writes before it trains its first model."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return any(not is_temporary(path) and path.name not in _BEFORE_THE_FIRST_MODEL for path in files)


@contextmanager
def as_corrupt_run_error(*folders: Path) -> Iterator[None]:
    """Turns errors from reading these run folders, when no run could have written them, into one line."""
    try:
        yield
    except NOT_OURS as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise CorruptBankError(
            f"{' or '.join(map(str, folders))} holds what no run writes ({type(error).__name__}: {reason}); "
            "`leakscope verify` names what is damaged"
        ) from error


def read_run(folder: Path) -> tuple[str, dict[str, Any]]:
    """(kind, config) of a run folder."""
    if not os.path.lexists(folder / RUN):
        why = f"it has no {RUN}" if os.path.lexists(folder) else "it does not exist"
        raise InputError(f"{folder} is not a run folder ({why})")
    refuse_irregular(folder)  # before any of its files is opened
    run = read_json(folder / RUN)
    kind, config = run.get("kind"), run.get("config")
    if set(run) != {"kind", "config"} or not isinstance(kind, str) or not isinstance(config, dict):
        raise CorruptBankError(f"{folder / RUN} is damaged: it should hold `kind` and `config`")
    return kind, config


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file that holds an object.

    Raises:
        InputError: it is missing.
        CorruptBankError: it cannot be read, is larger than any that a run writes, or is not a JSON object.
    """
    try:
        with open_regular(path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes > _LARGEST_JSON:
                raise CorruptBankError(
                    f"{path} has {n_bytes:,} bytes, and no run writes more than {_LARGEST_JSON:,}; "
                    "get the run again from whoever made it"
                )
            value: dict[str, Any] = json.load(
                file, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_distinct
            )
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing") from error
    except OSError as error:
        raise CorruptBankError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise CorruptBankError(f"{path} is damaged: not readable as JSON ({error})") from error
    if not isinstance(value, dict):
        raise CorruptBankError(f"{path} is damaged: not a JSON object")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON file. Of two values of one name, other readers may see the one that we do not."""
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"{twice!r} is there twice")
    return value


def stored_array(path: Path) -> AnyArray:
    """An array that a run has written.

    Raises:
        InputError: it is missing.
        CorruptBankError: it is damaged.
    """
    if not path.exists():
        raise InputError(f"{path} is missing")
    try:
        return load_array(path)
    except ArrayFileError as error:
        raise CorruptBankError(f"{path} {error}; run the same command again to rewrite it") from error


def _finite(text: str) -> float:
    """A number of a JSON file; NaN and infinity, which we never write, are damage."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def to_jsonable(value: Any) -> Any:
    """JSON-ready data: dataclasses to objects, arrays and tuples to lists, NaN and inf to null."""
    kind: Any = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind in _LEAVES:
        return value
    fields = _field_names(cast(Hashable, kind))
    if fields is not None:
        return {name: to_jsonable(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        return {str(k): to_jsonable(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_jsonable(v) for v in value]
    if hasattr(value, "tolist"):
        return to_jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Of a dataclass; None for another type."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(field.name for field in dataclasses.fields(kind))


def parse_as(kind: type[T], content: Mapping[str, object], path: Path, remedy: str = TRAIN_ANEW) -> T:
    """The dataclass that `to_jsonable` described; its `__post_init__` may raise ValueError.

    Raises:
        CorruptBankError: the content is not of this kind; names the path and the remedy.
    """
    from pydantic import ValidationError

    try:
        parsed = cast(T, adapter(cast(Any, kind)).validate_json(json.dumps(content), strict=True))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        what = f"{where}: {reason}" if where else reason
        raise CorruptBankError(f"{path} is damaged ({what}); {remedy}") from error
    unknown = _unknown_fields(content, to_jsonable(parsed))
    if unknown:
        raise CorruptBankError(f"{path} is damaged ({unknown[0]}: no such field); {remedy}")
    return parsed


def _unknown_fields(content: Any, known: Any, at: str = "") -> list[str]:
    """Where JSON data have fields that the data they were parsed into do not have."""
    if isinstance(content, Mapping) and isinstance(known, Mapping):
        own = [f"{at}{name}" for name in content if name not in known]
        return own + [
            d for name in known for d in _unknown_fields(content.get(name), known[name], f"{at}{name}.")
        ]
    if isinstance(content, list) and isinstance(known, list):
        pairs = enumerate(zip(content, known, strict=False))
        return [d for place, pair in pairs for d in _unknown_fields(*pair, f"{at}{place}.")]
    return []


@cache
def adapter(kind: Any) -> Any:
    """Pydantic's parser of a dataclass."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def differences(
    stored: Any, wanted: Any, prefix: str = "", here: str = "now", wording: str = _THERE_AND_HERE
) -> list[str]:
    """What differs between stored and wanted JSON data, in words; empty when nothing does.

    `here` is the word for the wanted data; the stored data are "there", unless `wording` says otherwise.
    """
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = list(dict.fromkeys([*wanted, *stored]))
        return [
            one
            for key in keys
            for one in differences(stored.get(key), wanted.get(key), f"{prefix}{key}.", here, wording)
        ]
    if stored == wanted:
        return []
    name, before, after = prefix.rstrip("."), _short(stored), _short(wanted)
    return [wording.format(name=name, stored=before, wanted=after, here=here)]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 48 else f"{text[:12]}…"
