"""Identity and manifest of a bank as they are on disk: of the right form, or damaged.

Checksums tell accidents, not intent: whoever changes a bank can change its checksums with it. So before any
number in these files becomes a size, or any name a path, it is looked at.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.errors import CorruptBankError

_MOST_MODELS = 1_000_000
_SIGNAL_NAME = re.compile(r"[a-z0-9_]{1,64}|(?=.{1,200}$)\w+(\.\w+)*:\w+(\.\w+)*")
_FILES = {"identity.json", "design.npy", "columns.npy", "labels.npy"}


def checked_identity(stored: dict[str, Any], path: Path) -> dict[str, Any]:
    """The identity; raises CorruptBankError where a bank could not have written it."""
    design, recipe, records = (_table(stored.get(name)) for name in ("design", "recipe", "records"))
    n_models, size, signals = design.get("models"), stored.get("block_size"), stored.get("signals")
    epochs, parts, seed = recipe.get("evaluated_epochs"), stored.get("parts", []), stored.get("seed")
    seeds = seed if "parts" in stored and isinstance(seed, list) else [seed]  # a merged bank has several
    is_sizes = isinstance(size, list) and all(_is_count(n) for n in size) and sum(size) == n_models
    facts = {
        "design.models": _is_count(n_models, _MOST_MODELS),
        "design.columns": _is_count(design.get("columns")),
        "design.sha256": isinstance(design.get("sha256"), str),
        "block_size": _is_count(size) or is_sizes,
        "signals": _are_names(signals),
        "recipe.evaluated_epochs": isinstance(epochs, list) and bool(epochs) and all(map(_is_count, epochs)),
        "records": bool(records),
        "seed": all(type(seed) is int and seed >= 0 for seed in seeds),
        "parts": isinstance(parts, list) and all(isinstance(part, str) for part in parts),
    }
    _refuse(facts, path)
    return stored


def checked_manifest(manifest: dict[str, Any], path: Path) -> dict[str, Any]:
    """The manifest of a finished bank; raises CorruptBankError where a bank could not have written it."""
    files, signals, lost = manifest.get("files"), manifest.get("signals"), manifest.get("lost_models")
    blocks = manifest["blocks"] if isinstance(manifest.get("blocks"), list) else []
    facts = {
        "files": isinstance(files, dict) and "identity.json" in files and set(files) <= _FILES,
        "blocks": bool(blocks) and all(isinstance(_table(b).get("lost_models"), dict) for b in blocks),
        "lost_models": isinstance(lost, dict)
        and all(m.isdecimal() and _is_count(e) for m, e in lost.items()),
        "signals": isinstance(signals, dict)
        and _are_names(list(signals))
        and all(_is_layout(entry, len(blocks)) for entry in signals.values()),
    }
    _refuse(facts, path)
    return manifest


def check_fit(identity: dict[str, Any], manifest: dict[str, Any], n_blocks: int, path: Path) -> None:
    """Raises CorruptBankError when the two do not speak of the same bank."""
    n_models, n_columns = identity["design"]["models"], identity["design"]["columns"]
    shapes = [entry["shape"] for entry in manifest["signals"].values()]
    facts = {
        "blocks": len(manifest["blocks"]) == n_blocks,
        "signals": set(manifest["signals"]) == set(identity["signals"]),
        "signals' shapes": all((shape[0], shape[2]) == (n_models, n_columns) for shape in shapes),
        "lost_models": all(int(model) < n_models for model in manifest["lost_models"]),
    }
    _refuse(facts, path)


def _refuse(facts: dict[str, bool], path: Path) -> None:
    wrong = [name for name, is_fine in facts.items() if not is_fine]
    if wrong:
        raise CorruptBankError(
            f"{path} is damaged: {', '.join(wrong)} cannot be what a bank has; "
            "remove it to train the bank anew"
        )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_count(value: Any, at_most: int = 1 << 62) -> bool:
    return type(value) is int and 1 <= value <= at_most


def _are_names(names: Any) -> bool:
    """True for names of signals: they become names of files."""
    return (
        isinstance(names, list)
        and bool(names)
        and all(isinstance(name, str) and _SIGNAL_NAME.fullmatch(name) for name in names)
    )


def _is_layout(entry: Any, n_blocks: int) -> bool:
    """True for a plain dtype, a shape (models, checkpoints, columns[, classes]) and one checksum a block."""
    entry = _table(entry)
    shape, sums, dtype = entry.get("shape"), entry.get("sha256"), entry.get("dtype")
    if not isinstance(shape, list) or len(shape) not in (3, 4) or not all(map(_is_count, shape)):
        return False
    if not isinstance(sums, list) or len(sums) != n_blocks or not isinstance(dtype, str):
        return False
    try:
        return np.dtype(dtype).kind in "biuf"
    except (TypeError, ValueError, SyntaxError):
        return False
