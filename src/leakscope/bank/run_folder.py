"""A run folder's `run.json`: what kind of run it is and what was asked for.

It is written first, so that a later command on the same folder either is the same run (and goes
on) or is refused with what differs; and it is all `verify` needs to compute the results again.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from leakscope.bank.identity import differences
from leakscope.bank.storage import is_temporary, storage_errors, sweep_temporaries, write_json
from leakscope.errors import BankMismatchError, CorruptBankError, InputError

RUN, RESULTS = "run.json", "results.json"


def claim(folder: Path, kind: str, config: dict[str, Any]) -> None:
    """Makes `folder` this run's own, or raises: it holds another run, or something else altogether."""
    wanted = plain({"kind": kind, "config": config})
    if (folder / RUN).exists():
        differing = differences(read_json(folder / RUN), wanted)
        if differing:
            raise BankMismatchError(
                f"{folder} holds a different run ({'; '.join(differing[:4])}); "
                "choose another folder with --out, or remove this one"
            )
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        is_new = not (folder / RUN).exists()
        if is_new and not all(is_temporary(path) for path in folder.iterdir()):
            raise InputError(f"{folder} is not empty and holds no run; choose another folder with --out")
        sweep_temporaries(folder)
        if is_new:
            write_json(folder / RUN, wanted)


def read_run(folder: Path) -> tuple[str, dict[str, Any]]:
    """(kind, config) of a run folder."""
    if not (folder / RUN).exists():
        raise InputError(f"{folder} is not a run folder (it has no {RUN})")
    run = read_json(folder / RUN)
    if set(run) != {"kind", "config"} or not isinstance(run["config"], dict):
        raise CorruptBankError(f"{folder / RUN} is damaged: it should hold `kind` and `config`")
    return run["kind"], run["config"]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file's content; unreadable content is named."""
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing") from error
    except ValueError as error:
        raise CorruptBankError(f"{path} is damaged: not readable as JSON ({error})") from error
    if not isinstance(value, dict):
        raise CorruptBankError(f"{path} is damaged: not a JSON object")
    return value


def plain(value: Any) -> Any:
    """JSON-ready data: arrays and tuples to lists, numpy numbers to Python's, NaN and inf to null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
