"""Checksums of all files of a folder, for arrays that are stored outside a bank.

Nothing else would notice a flipped byte in the outcome of a training, and the result would be wrong.
"""

from __future__ import annotations

from pathlib import Path

from leakscope.bank.run_folder import read_json
from leakscope.disk.storage import sha256_of, write_json
from leakscope.errors import CorruptBankError, InputError

SEAL = "sha256.json"


def write_seal(folder: Path) -> None:
    """Writes the checksums of all files under `folder`, once they are complete."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    write_json(folder / SEAL, {str(path.relative_to(folder)): sha256_of(path) for path in files})


def seal_damage(folder: Path) -> list[str]:
    """What is missing or damaged, in words; empty when nothing is."""
    try:
        checksums = read_json(folder / SEAL)
    except (InputError, CorruptBankError) as error:
        return [str(error)]
    missing = [f"{folder / name} is missing" for name in checksums if not (folder / name).is_file()]
    return missing or [
        f"{folder / name} does not match its checksum"
        for name, sha in checksums.items()
        if sha256_of(folder / name) != sha
    ]


def check_seal(folder: Path) -> None:
    """Raises CorruptBankError, naming the file, when one is missing or damaged."""
    for problem in seal_damage(folder):
        raise CorruptBankError(f"{problem}; run the same command again to rewrite it")
