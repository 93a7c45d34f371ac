"""The table of claims: every claim has a verdict, and none is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from leakscope.bank.results import write_results
from leakscope.errors import InputError
from leakscope.report.blocks import Body
from leakscope.studies.claims import Claim, Outcome, Settled, StudyClaims, claims_table, complete, counted

CLAIMS = (
    Claim("rise", "Leakage rises with width.", "r = 0.7", "5 widths"),
    Claim("fall", "Leakage falls with size.", ""),
)


@dataclass(frozen=True)
class MadeUpResults:
    """Results of a made-up study."""

    r: float


def settle(results: Sequence[MadeUpResults]) -> list[Settled]:
    mean = sum(result.r for result in results) / len(results)
    rise = Settled(CLAIMS[0], Outcome.REPRODUCED, f"r = {mean:.2f}", "7 widths", "the interval holds it")
    return complete(CLAIMS, {"rise": rise})


def discussion(results: Sequence[MadeUpResults]) -> Body:
    return [f"{len(results)} runs."]


MADE_UP = StudyClaims("made-up", "A Publication", MadeUpResults, CLAIMS, settle, discussion)


def test_a_claim_without_results_is_listed_as_not_testable() -> None:
    settled = settle([MadeUpResults(0.5)])
    assert [entry.claim.key for entry in settled] == ["rise", "fall"]
    assert settled[1].outcome is Outcome.NOT_TESTABLE
    assert counted(settled) == "2 claims: 1 reproduced, 1 not testable here."


def test_a_verdict_on_an_unknown_claim_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="sideways"):
        complete(CLAIMS, {"sideways": Settled(CLAIMS[0], Outcome.REFUTED)})


def test_the_table_has_both_protocols_and_the_reason() -> None:
    first, _ = claims_table(settle([MadeUpResults(0.5)])).rows
    assert list(first[1:5]) == ["r = 0.7", "r = 0.50", "5 widths", "7 widths"]
    assert first[5] == "reproduced: the interval holds it"


def test_the_page_is_made_from_all_results_of_a_folder(tmp_path: Path) -> None:
    for k, r in enumerate((0.6, 0.8)):
        (tmp_path / str(k)).mkdir()
        write_results(tmp_path / str(k), MadeUpResults(r))
        (tmp_path / str(k) / "results.json").rename(tmp_path / f"{k}.json")
    page = MADE_UP.write_page(tmp_path)
    assert page == tmp_path.with_suffix(".md")
    text = page.read_text()
    assert "r = 0.70" in text
    assert "2 runs." in text
    assert "2 claims: 1 reproduced, 1 not testable here." in text


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no results files"):
        MADE_UP.page(tmp_path)
