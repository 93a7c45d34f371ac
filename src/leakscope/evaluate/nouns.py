"""What figures are about, as a word: records, or units such as patients."""

from __future__ import annotations

import re
from typing import NamedTuple

_ID_SUFFIX = re.compile(r"[ _.-]?(id|ids|key|nr|no|number|uuid)$", re.IGNORECASE)
_CAMEL_ID = re.compile(r"(?<=[a-z])(Id|ID)$")
_IRREGULAR = {"child": "children", "man": "men", "woman": "women"}


class Noun(NamedTuple):
    """One of those whose membership is in question, and several of them."""

    one: str
    many: str

    @classmethod
    def of_unit(cls, unit: str | None) -> Noun:
        """The noun of a unit's column: "patient_id" are patients; None are records."""
        if unit is None:
            return RECORD
        name = unit.strip()
        short = _ID_SUFFIX.sub("", _CAMEL_ID.sub("", name)).replace("_", " ").strip().lower()
        one = short if re.search("[a-z]", short) else "unit"
        return cls(one, _plural(one))

    def counted(self, number: int) -> str:
        """A number of them: "1 patient", "1,200 patients"."""
        return f"{number:,} {self.one if number == 1 else self.many}"


RECORD = Noun("record", "records")


def _plural(one: str) -> str:
    for singular, plural in _IRREGULAR.items():
        if one.split()[-1] == singular:
            return one.removesuffix(singular) + plural
    if one.endswith("s") and not one.endswith(("ss", "us")):
        return one  # a column called "patients"
    if re.search(r"[^aeiou]y$", one):
        return f"{one[:-1]}ies"
    return f"{one}es" if one.endswith(("s", "x", "ch", "sh")) else f"{one}s"
