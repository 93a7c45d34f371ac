"""What a report tells about single records, when it travels further than the run folder.

Redacted: nothing of a single record but its figures. Raw features, thumbnails, labels and groups of single
records stay out, and ids are HMAC-SHA256 of the id under a key that lies in the run folder only: whoever
has the folder can find a record again, whoever has the report alone cannot even test a guess.

Membership: in a population we trained, models saw random halves that a coin chose, so which of them saw a
record is no secret about a person, and reports show it. Of a *given* model it is the very secret. A
record's score beside the ROC would tell it too (each step of the curve is one record), so a report about
a given model names a record's side and its scores in that model only with `with_membership`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.disk.storage import open_regular, write_private
from leakscope.errors import CorruptBankError

KEY = "redaction.key"
_HEX_DIGITS = 12
_KEY_BYTES = 32


@dataclass(frozen=True)
class Disclosure:
    """What a report may tell about single records.

    Attributes:
        redacted: leave out features, thumbnails, labels and groups of records, and hash their ids.
        with_membership: tell which records a given model was trained on.
    """

    redacted: bool = False
    with_membership: bool = False


DEFAULT_DISCLOSURE = Disclosure()


def shown_ids(folder: Path, ids: npt.NDArray[np.str_], redacted: bool) -> npt.NDArray[np.str_]:
    """The ids a report shows: as they are or, redacted, hashed with the run's own key; str (records,)."""
    if not redacted:
        return ids
    key = _key(folder)
    return np.array([hmac.digest(key, i.encode(), hashlib.sha256).hex()[:_HEX_DIGITS] for i in ids.tolist()])


def _key(folder: Path) -> bytes:
    """The run's key, made when first needed; a secret, so the one random number no seed gives."""
    path = folder / KEY
    if not path.exists():
        write_private(path, secrets.token_bytes(_KEY_BYTES))
    try:
        with open_regular(path) as file:
            key = file.read(_KEY_BYTES + 1)
    except OSError as error:
        raise CorruptBankError(f"{path} cannot be read ({error.strerror})") from error
    if len(key) != _KEY_BYTES:
        raise CorruptBankError(
            f"{path} is damaged: it does not have {_KEY_BYTES} bytes; put it back, or remove it, and "
            "records get other hashes than in earlier reports"
        )
    return key
