"""What a report discloses about single records when it leaves the run folder.

A redacted report contains nothing about a single record but its figures. Features, thumbnails, labels and
groups of single records are left out, and ids are replaced by their HMAC-SHA256 under a key that is stored in
the run folder only: with the folder a record can be identified, with the report alone not even a guess can be
tested.

Membership: the models of a population are trained on random halves, so which of them saw a record says
nothing about a person, and reports show it. For a *given* model, membership is the secret itself. A record's
score beside the ROC curve would reveal it too (each step of the curve is one record), so a report about a
given model shows membership and scores of single records only with `with_membership`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakscope.disk.storage import open_regular, write_bytes
from leakscope.errors import CorruptBankError, InputError

KEY = "redaction.key"
_HEX_DIGITS = 12
_KEY_BYTES = 32


@dataclass(frozen=True)
class Disclosure:
    """What a report may disclose about single records.

    Attributes:
        redacted: leave out features, thumbnails, labels and groups of records, and hash their ids.
        with_membership: show which records a given model was trained on.
    """

    redacted: bool = False
    with_membership: bool = False

    def check(self, is_of_one_model: bool) -> None:
        """Raises InputError where `with_membership` would do nothing: no given model's members are hidden."""
        if self.with_membership and not is_of_one_model:
            raise InputError(
                "with_membership (--with-membership) would do nothing: it is for audits of a given model; "
                "remove it"
            )


DEFAULT_DISCLOSURE = Disclosure()


def shown_ids(folder: Path, ids: npt.NDArray[np.str_], redacted: bool) -> npt.NDArray[np.str_]:
    """The ids a report shows: as they are or, redacted, hashed with the run's own key; str (records,)."""
    if not redacted:
        return ids
    key = _key(folder)
    return np.array([hmac.digest(key, i.encode(), hashlib.sha256).hex()[:_HEX_DIGITS] for i in ids.tolist()])


def _key(folder: Path) -> bytes:
    """The run's key, created when first needed; a secret, so it does not derive from a seed."""
    path = folder / KEY
    if not path.exists():
        write_bytes(path, secrets.token_bytes(_KEY_BYTES), mode=0o600)
    try:
        with open_regular(path) as file:
            key = file.read(_KEY_BYTES + 1)
    except OSError as error:
        raise CorruptBankError(f"{path} cannot be read ({error.strerror})") from error
    if len(key) != _KEY_BYTES:
        raise CorruptBankError(
            f"{path} is damaged: it does not have {_KEY_BYTES} bytes; restore it, or remove it, and "
            "records get other hashes than in earlier reports"
        )
    return key
