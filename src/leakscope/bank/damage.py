"""What on disk does not match its checksum.

Arrays outside a bank have a seal: nothing else would notice a flipped byte in the outcome of a training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.run_folder import SEAL, read_json
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.storage import sha256_of, write_json
from leakscope.errors import CorruptBankError, InputError

REPAIR = "run the command that made the bank again, which repairs it"


@dataclass(frozen=True)
class Damage:
    """One damaged file.

    Attributes:
        file: its path in the bank's folder.
        what: what is wrong with it.
        block: the block that has to be trained again; None: nothing has to be trained.
    """

    file: str
    what: str
    block: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def file_damage(folder: Path, checksums: Mapping[str, str | None], block: int | None = None) -> list[Damage]:
    """The named files that are missing or do not match their checksum."""
    damage = []
    for name, sha256 in checksums.items():
        if not (folder / name).is_file():
            damage.append(Damage(name, "is missing", block))
        elif sha256_of(folder / name) != sha256:
            damage.append(Damage(name, "does not match its checksum", block))
    return damage


def sha256_of_array(array: AnyArray) -> str:
    """Sha256 of an array's bytes in C order, without its header."""
    sha = hashlib.sha256()
    for rows in row_blocks(array):
        sha.update(np.ascontiguousarray(array[rows]).data)
    return sha.hexdigest()


def write_seal(folder: Path) -> None:
    """Writes the checksums of all files under `folder`, once they are complete."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    write_json(folder / SEAL, {str(path.relative_to(folder)): sha256_of(path) for path in files})


def check_seal(folder: Path) -> None:
    """Raises CorruptBankError, naming the file, when one is missing or damaged."""
    remedy = "run the same command again to rewrite it"
    try:
        checksums = read_json(folder / SEAL)
    except (InputError, CorruptBankError) as error:
        raise CorruptBankError(f"{error}; {remedy}") from error
    for damage in file_damage(folder, checksums):
        raise CorruptBankError(f"{folder / damage.file} {damage.what}; {remedy}")
