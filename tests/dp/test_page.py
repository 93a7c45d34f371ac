"""The page about a claim says what was tested, and promises nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.dp.page import claim_badge, claim_page, claim_section
from leakscope.dp.sentences import figures_sentences, verdict_sentence
from leakscope.dp.verdict import ClaimFigures, ClaimVerdict, Evidence, Growth, judge_claim
from leakscope.privacy.claim import Claim

NAUGHTY = "<script>alert(1)</script>"


def verdict(bound: float, ceiling: float) -> ClaimVerdict:
    growth = (Growth(50, 8, bound / 2, ceiling / 2), Growth(50, 16, bound, ceiling))
    many = Evidence("many records", bound, 0.975, ceiling, "guesses", 50, 16, ("Coins are fair.",), growth)
    single = Evidence("a single one", 0.0, 0.975, 0.3, "rates", 1, 16, ("Coins are fair.",))
    return judge_claim(Claim(4.0), [many, single], "It takes 900 models.")


OUTCOMES = {"refuted": verdict(5.0, 6.0), "consistent": verdict(1.0, 6.0), "not testable": verdict(1.0, 3.0)}


@pytest.mark.parametrize("status", OUTCOMES)
def test_a_page_of_its_own(tmp_path: Path, status: str) -> None:
    outcome = OUTCOMES[status]
    assert outcome.status == status
    outcome.write_report(tmp_path / "page")
    text = (tmp_path / "page" / "report.md").read_text()
    assert verdict_sentence(outcome) in text.replace("\\", "")
    assert "Coins are fair." in text
    assert ("It takes 900 models." in text) == (status == "not testable")
    assert (tmp_path / "page" / "figures" / "claim.png").exists()
    assert claim_badge(outcome).tone != "good"
    page = (tmp_path / "page" / "report.html").read_text()
    assert "claim-growth" in page


@pytest.mark.parametrize("status", OUTCOMES)
def test_no_sentence_promises_anything(status: str) -> None:
    for power in (0.001, 0.5, 0.999):
        figures = ClaimFigures(OUTCOMES[status], (), power, "It takes 900 models.")
        text = " ".join(figures_sentences(figures)).lower()
        assert not any(word in text for word in ("proof", "prove", "safe", "guarantee"))
        assert ("900 models" in text) == ((status != "refuted" and power < 0.8) or status == "not testable")
    assert "95% confidence" in verdict_sentence(OUTCOMES["refuted"])


def test_a_redacted_section_has_no_test_of_a_single_record() -> None:
    outcome = OUTCOMES["consistent"]
    section = claim_section(outcome, ["A sentence."], outcome.evidence)
    assert "a single one" in section.markdown()
    redacted = claim_section(outcome, ["A sentence."], outcome.evidence, redacted=True)
    assert "a single one" not in redacted.markdown()
    assert "a single one" not in redacted.html()


def test_names_are_escaped(tmp_path: Path) -> None:
    evidence = Evidence(NAUGHTY, 1.0, 0.95, 6.0, NAUGHTY, 10, 1, (NAUGHTY,))
    claim_page(judge_claim(Claim(4.0), [evidence]), tmp_path)
    for name in ("report.html", "report.md"):
        assert NAUGHTY not in (tmp_path / name).read_text()
