"""The list of claims against the publication itself: no number it states is missing from our page.

`claims_of_publications/NAME.json` says of every passage of a publication that states a number which claims it
belongs to, or why it is none ("a date", "our notation"). A passage is given by its `text`, or, where it is
long or has formulas, by its first and last words (`from`, `to`). Where the publications are at hand, the test
finds each passage in the text, and every number of the text in a passage.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leakscope.studies.claims import StudyClaims

REPOSITORY = Path(__file__).resolve().parents[2]
PUBLICATIONS = REPOSITORY.parent / "shared" / "seeds"
DATA = Path(__file__).with_name("claims_of_publications")
STUDIES = sorted(file.stem for file in DATA.glob("*.json"))
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


class Passage(NamedTuple):
    """Words of a publication, and the claims they make; without claims, the reason.

    With `last`, a passage reaches from the first occurrence of `text` to the next one of `last`.
    """

    text: str
    last: str
    claims: tuple[str, ...]
    no_claim_because: str

    def spans(self, publication: str) -> list[tuple[int, int]]:
        """Start and end of every occurrence."""
        starts = [match.start() for match in re.finditer(re.escape(self.text), publication)]
        if not self.last:
            return [(start, start + len(self.text)) for start in starts]
        end = publication.find(self.last, starts[0]) if starts else -1
        return [(starts[0], end + len(self.last))] if end >= 0 else []


def study_claims(study: str) -> StudyClaims[Any]:
    claims: StudyClaims[Any] = import_module(f"leakscope.studies.{study}.claims").PUBLICATION
    return claims


@cache
def passages(study: str) -> tuple[Passage, ...]:
    content = json.loads((DATA / f"{study}.json").read_text())
    return tuple(
        Passage(
            _one_line(p.get("text") or p["from"]),
            _one_line(p.get("to", "")),
            tuple(p.get("claims", ())),
            p.get("no_claim_because", ""),
        )
        for p in content["passages"]
    )


@cache
def publication(study: str) -> str:
    prefix = json.loads((DATA / f"{study}.json").read_text())["file_prefix"]
    files = sorted(PUBLICATIONS.glob(f"{prefix}*"))
    if not files:
        pytest.skip(f"the publication {prefix}* is not in {PUBLICATIONS}")
    return _one_line(files[0].read_text())


def _one_line(text: str) -> str:
    return re.sub(r"(\\n|\s)+", " ", text)


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_is_what_the_command_writes(study: str) -> None:
    folder = REPOSITORY / "docs" / "results" / study
    assert (folder.parent / f"{study}.md").read_text() == study_claims(study).page(folder)


@pytest.mark.parametrize("study", STUDIES)
def test_every_claim_has_a_passage_and_every_passage_a_claim_or_a_reason(study: str) -> None:
    keys = [claim.key for claim in study_claims(study).claims]
    assert len(set(keys)) == len(keys)
    assert {key for passage in passages(study) for key in passage.claims} == set(keys)
    assert all(bool(p.claims) != bool(p.no_claim_because) for p in passages(study))


@pytest.mark.parametrize("study", STUDIES)
def test_every_number_of_the_publication_is_in_a_passage(study: str) -> None:
    text = publication(study)
    covered = [False] * len(text)
    for passage in passages(study):
        spans = passage.spans(text)
        assert spans, f"not in the publication: {passage.text} {passage.last}"
        for start, end in spans:
            covered[start:end] = [True] * (end - start)
    missing = [
        text[max(0, m.start() - 60) : m.end() + 30]
        for m in NUMBER.finditer(text)
        if not all(covered[m.start() : m.end()])
    ]
    assert not missing, f"{len(missing)} numbers in no passage, the first: {missing[:5]}"


IN_A_TABLE_ONLY = {"com_datasets": {"12.8"}, "com_cinic": {"135"}, "entropy_mnist": {"0.08"}}
"""Numbers of claims from tables of a publication; the text at hand is a summary without them."""


def is_quoted(number: str, numbers: set[float]) -> bool:
    """Whether a number is in the text, possibly with more digits, or as a share instead of a percentage."""
    value, digits = float(number.replace(",", "")), len(number.partition(".")[2])
    return any(abs(scale * one - value) <= 0.5 * 10**-digits + 1e-9 for one in numbers for scale in (1, 100))


@pytest.mark.parametrize("study", STUDIES)
def test_every_published_value_is_one_that_the_publication_states(study: str) -> None:
    numbers = {float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", publication(study))}
    for claim in study_claims(study).claims:
        stated, equals, ratio = (
            claim.published.partition(" = ") if " / " in claim.published else (claim.published, "", "")
        )
        missing = {one for one in NUMBER.findall(stated) if not is_quoted(one, numbers)}
        assert missing <= IN_A_TABLE_ONLY.get(claim.key, set()), (claim.key, missing)
        if equals and ratio[:1].isdigit():
            first, second = (float(one) for one in stated.split(" / "))
            assert abs(first / second - float(ratio)) <= 0.05 + 1e-9, claim.key
