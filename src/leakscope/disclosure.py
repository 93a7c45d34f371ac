"""What a report discloses about single records; docs/redaction.md has the threat model.

The reader of a report may have the records in order, the config and black-box access to the models. Training
is reproducible, so this reader can rebuild the design, train every model again and recompute any figure of a
record: whatever a page says about a row, the reader can search the records for it.

A *redacted* page therefore says nothing about a row. It has figures of many records together and the ids of
the exposed records, replaced by their HMAC-SHA256 under a key that stays in the run folder, in the order of
these hashes. It is a file of its own, and a run that has the key stays redacted when it is run again.

For a *given* model, membership is the secret itself. Its page shows nothing about a record that depends on
the target's membership, unless `with_membership` says so.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.errors import CorruptBankError, InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KEY = "redaction.key"
FEWEST_RECORDS = 20
"""Fewest records that a page gives figures about where single records are secret."""
_HEX_DIGITS = 12
_KEY_BYTES = 32


@dataclass(frozen=True)
class Disclosure:
    """What a report may disclose about single records.

    Attributes:
        redacted: write a page without single records; None: if the run was redacted before.
        with_membership: show which records a given model was trained on.
    """

    redacted: bool | None = None
    with_membership: bool = False

    def __post_init__(self) -> None:
        if self.redacted and self.with_membership:
            raise InputError("a redacted report has no membership: choose --redact or --with-membership")

    def check(self, is_of_one_model: bool) -> None:
        """Raises InputError where `with_membership` would do nothing: no given model's members are hidden."""
        if self.with_membership and not is_of_one_model:
            raise InputError(
                "with_membership (--with-membership) would do nothing: it is for audits of a given model; "
                "remove it"
            )


DEFAULT_DISCLOSURE = Disclosure()


def inherited(wanted: Disclosure, parts: Sequence[Path]) -> Disclosure:
    """What a report about several runs may disclose: where that of a part is redacted, so is this one."""
    is_inherited = wanted.redacted is None and any(map(is_redacted, parts))
    return replace(wanted, redacted=True) if is_inherited else wanted


def stay_redacted(folder: Path, wanted: Disclosure) -> None:
    """Creates the key of a run to be redacted; call it first, so that a resumed run is redacted, too."""
    if wanted.redacted:
        redaction_key(folder)


def keyed_ids(folder: Path, ids: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    """The ids as a redacted page shows them: hashed with the run's own key; str (records,)."""
    import numpy as np

    key = redaction_key(folder)
    return np.array([hmac.digest(key, i.encode(), hashlib.sha256).hex()[:_HEX_DIGITS] for i in ids.tolist()])


def is_redacted(folder: Path) -> bool:
    """True for a run folder whose report was to be redacted once."""
    return (folder / KEY).exists()


def redaction_key(folder: Path) -> bytes:
    """The run's key, created when first needed; a secret, so it does not derive from a seed."""
    from leakscope.disk.storage import open_regular, write_bytes

    path = folder / KEY
    if not path.exists():
        write_bytes(path, secrets.token_bytes(_KEY_BYTES), mode=0o600)
    try:
        with open_regular(path) as file:
            key = file.read(_KEY_BYTES + 1)
        if path.stat().st_mode & 0o077:  # copied, or fetched from an object store
            path.chmod(0o600)
    except OSError as error:
        raise CorruptBankError(f"{path} cannot be read ({error.strerror})") from error
    if len(key) != _KEY_BYTES:
        raise CorruptBankError(
            f"{path} is damaged: it does not have {_KEY_BYTES} bytes; restore it, or remove it, and "
            "records get other hashes than in earlier reports"
        )
    return key
