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

    def say(self, text: str) -> str:
        """A sentence about records, about these instead: "a record" becomes "an author"."""
        if self == RECORD:
            return text
        article = "an" if self.one[0] in "aeiou" else "a"
        text = re.sub(r"\b(A|a)( single)? record\b", lambda m: _with_article(m, article, self.one), text)
        text = re.sub(r"\brecord(s?)\b", lambda m: self.many if m[1] else self.one, text)
        return re.sub(r"\bRecord(s?)\b", lambda m: (self.many if m[1] else self.one).capitalize(), text)

    def counted(self, number: int) -> str:
        """A number of them: "1 patient", "1,200 patients"."""
        return f"{number:,} {self.one if number == 1 else self.many}"


def _with_article(match: re.Match[str], article: str, one: str) -> str:
    first = match[1] if match[2] else article.capitalize() if match[1] == "A" else article
    return f"{first}{match[2] or ''} {one}"


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
