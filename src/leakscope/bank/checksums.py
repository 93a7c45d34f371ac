"""A folder of arrays with a checksum of each, for what is kept outside a bank.

A flipped byte of a training's outcome is a wrong result that nothing else would notice: a file is believed
only as long as it is the one that was written.
"""

from __future__ import annotations

from pathlib import Path

from leakscope.bank.run_folder import read_json
from leakscope.disk.storage import sha256_of, write_json
from leakscope.errors import CorruptBankError, InputError

SEAL = "sha256.json"


def write_seal(folder: Path) -> None:
    """Writes the checksums of all files under `folder`, which are there by now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    write_json(folder / SEAL, {str(path.relative_to(folder)): sha256_of(path) for path in files})


def seal_damage(folder: Path) -> list[str]:
    """What is missing or not as it was written, in words; empty when all is."""
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
    """Raises CorruptBankError, naming the file, when the folder is not as it was written."""
    for problem in seal_damage(folder):
        raise CorruptBankError(f"{problem}; run the same command again, which makes it anew")
