"""The rating: noise is not rated, more leakage never rates lower, and misses are stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from leakscope import audit
from leakscope.audits.report.page import headline
from leakscope.audits.report.page_remedies import rating_picture
from leakscope.data.canaries import Canaries
from leakscope.evaluate import rating_sentences
from leakscope.evaluate.gate import GateResult, LimitOutcome
from leakscope.evaluate.hygiene.outcome import Outcome, Status
from leakscope.evaluate.levels import LEVELS, SEPARATIONS, advantage_of, auc_of, tpr_of
from leakscope.evaluate.nouns import RECORD
from leakscope.evaluate.rating import WORST_BITS, Rated, rate
from leakscope.evaluate.rating_results import Level, RatingPart
from leakscope.evaluate.rating_sentences import (
    RULE_OF_AUC,
    above_chance,
    decisive_sentence,
    interval_of,
    rating_rows,
    rating_sentence,
    threshold,
)
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.suggested_gate import suggested_gate
from leakscope.leakage.checkpoints import MostExposed
from leakscope.recipe import EstimatorRecipe
from leakscope.stats.roc import auc_of_split, split_scores
from leakscope.types import Records
from tests.made_up_audits import made_up_audit, quick_single_records
from tests.quick_audits import quick_audits


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[float, AuditResults]:
    """Audits with more and more leakage, of the same records, design and noise."""
    folder = tmp_path_factory.mktemp("rated")
    with quick_single_records():
        return {gap: made_up_audit(folder / f"{gap}", gap).results for gap in (0.0, 0.4, 1.2, 4.0)}


def rated(results: AuditResults) -> Rated:
    return Rated(
        results.headline,
        results.attacks,
        results.population,
        results.leakage,
        results.exposed,
        results.gate,
        results.hygiene,
    )


def with_auc(results: AuditResults, low: float, high: float) -> AuditResults:
    auc = replace(results.headline.auc, value=(low + high) / 2, low=low, high=high)
    return replace(results, headline=replace(results.headline, auc=auc))


def with_worst_bits(results: AuditResults, low: float, high: float) -> AuditResults:
    """As if there were enough records for the bits of the most exposed 1%."""
    last = results.leakage.checkpoints[-1]
    most = MostExposed((low + high) / 2, low, high, low, high, last.most_exposed.share, None)
    leakage = replace(results.leakage, checkpoints=(replace(last, most_exposed=most),))
    return replace(results, leakage=leakage)


def rated_again(results: AuditResults) -> AuditResults:
    return replace(results, rating=rate(rated(results)))


def test_more_leakage_never_rates_lower(audits: dict[float, AuditResults]) -> None:
    levels = [LEVELS.index(results.rating.level) for results in audits.values()]
    assert levels == sorted(levels)
    assert levels[0] == 0 and levels[-1] == len(LEVELS) - 1


def test_raising_any_single_figure_never_rates_lower(audits: dict[float, AuditResults]) -> None:
    results = audits[0.4]
    for low in np.linspace(0, 1, 21).tolist():
        ratings = [
            LEVELS.index(rate(rated(with_auc(results, end, max(end, 0.6)))).level)
            for end in (low, low + 0.05)
        ]
        assert ratings == sorted(ratings)


def test_the_curve_of_a_level_is_that_of_two_normal_distributions() -> None:
    rng = np.random.default_rng(0)
    for level, mu in SEPARATIONS.items():
        scores = np.concatenate([rng.normal(mu, 1, 40_000), rng.normal(0, 1, 40_000)])
        sides = split_scores(scores, np.arange(80_000) < 40_000)
        threshold = np.quantile(sides.nonmembers, 0.99)
        # Four standard errors of a rate and of an AUC of 40,000 records a side.
        assert (sides.members > threshold).mean() == pytest.approx(tpr_of(level, 0.01), abs=0.012)
        if level != "low":
            assert auc_of_split(sides) == pytest.approx(auc_of(level), abs=0.008)


def test_the_table_of_the_documentation_is_computed() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "rating.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    table = {row[0]: row[1:] for row in rows if row[0] in SEPARATIONS}
    assert list(table) == list(SEPARATIONS)
    for level, (mu, auc, advantage, *tprs, bits) in table.items():
        assert float(advantage) == pytest.approx(advantage_of(level), abs=5e-4)
        assert float(mu) == SEPARATIONS[level] and float(bits) == WORST_BITS[level]
        assert float(auc.removeprefix("above ")) == pytest.approx(auc_of(level), abs=5e-4)
        for fpr, shown in zip((0.1, 0.01, 0.001, 0.0001), tprs, strict=True):
            exact = 100 * tpr_of(level, fpr)
            decimals = len(shown.rstrip("%").partition(".")[2])
            assert shown == f"{exact:.{decimals}f}%"


def test_levels_rise_at_every_false_positive_rate() -> None:
    for fpr in (0.1, 0.01, 0.001, 0.0001):
        curve = [tpr_of(level, fpr) for level in LEVELS[1:]]
        assert curve == sorted(curve) and curve[0] > fpr


def test_the_rating_is_that_of_the_lower_end(audits: dict[float, AuditResults]) -> None:
    results = audits[0.0]
    for level in LEVELS[2:]:
        limit = auc_of(level)
        below = rate(rated(with_auc(results, limit - 1e-6, 1.0)))
        assert LEVELS.index(below.level) < LEVELS.index(level)
        assert rate(rated(with_auc(results, limit + 1e-6, 1.0))).level == level


def test_nothing_found_says_what_could_have_been_missed(audits: dict[float, AuditResults]) -> None:
    assert "most exposed" not in rating_sentence(audits[0.0]), "1 record, which is not measured"
    results = rated_again(with_worst_bits(audits[0.0], 0.0, 0.3))
    sentence = rating_sentence(results)
    assert sentence.startswith("Rating: none found. An audit of this size could have missed an AUC of up to ")
    assert (
        f"{results.headline.auc.high:.3f}" in sentence and "about the most exposed 1% of records" in sentence
    )


@pytest.mark.parametrize(
    ("about", "fpr", "low", "sentence"),
    [
        ("tpr", 0.1, 0.2182, "is at least 21.8%; moderate begins at 21.7%."),
        ("tpr", 0.1, 0.25, "is at least 25%; moderate begins at 22%."),
        ("auc", None, 0.63821, "is at least 0.63821; moderate begins at 0.63816."),
        ("auc", None, 0.6391, "is at least 0.639; moderate begins at 0.638."),
    ],
)
def test_a_lower_end_near_its_level_has_more_digits(
    about: Literal["tpr", "auc"], fpr: float | None, low: float, sentence: str
) -> None:
    part = RatingPart(about, "figure", "moderate", "high", 0.7, low, 0.8, fpr)
    assert decisive_sentence(part, RECORD) == f"The figure {sentence}"


def test_an_interval_above_chance_that_reaches_no_level_is_explained(
    audits: dict[float, AuditResults],
) -> None:
    """The page must not say that nothing is detectable beside an interval that says otherwise."""
    above = rated_again(with_auc(audits[0.0], 0.502, 0.549))
    assert above.rating.level == "none found"
    sentence, heading = rating_sentence(above), " ".join(headline(above))
    assert f"AUC ({above.headline.attack}) at least 0.502" in sentence and RULE_OF_AUC in sentence
    picture = rating_picture(above)
    assert picture is not None and RULE_OF_AUC in picture.caption
    assert "barely detectable" in heading and "is not detectable" not in heading
    for low in (0.497, 0.5001):  # the second one is printed as 0.500
        none = rated_again(with_auc(audits[0.0], low, 0.55))
        picture = rating_picture(none)
        assert picture is not None and RULE_OF_AUC not in picture.caption
        assert "AUC (" not in " ".join(above_chance(none)) and RULE_OF_AUC not in rating_sentence(none)


@pytest.mark.parametrize(("n_references", "opening", "end"), [
    (0, "Without reference models, these attacks could have missed an AUC", "leaks: reference models"),
    (1, "With 1 reference model, these attacks could have missed an AUC", "leaks: more reference models"),
    (64, "With 64 reference models, these attacks could have missed an AUC", "leaks: more reference models"),
])  # fmt: skip
def test_the_bound_of_a_given_model_holds_for_the_attacks(
    audits: dict[float, AuditResults], n_references: int, opening: str, end: str
) -> None:
    results = audits[0.0]
    of_one = replace(
        results,
        config=replace(results.config, targets=(0,)),
        population=replace(results.population, models=1 + n_references, targets=1),
    )
    sentence = rating_sentence(of_one)
    assert sentence.startswith(f"Rating: none found. {opening} of up to ")
    assert sentence.endswith(f"not what the model {end} make attacks stronger.")


def test_an_audit_too_small_to_find_a_high_leak_is_inconclusive(audits: dict[float, AuditResults]) -> None:
    results = rated_again(with_auc(audits[0.0], 0.2, 0.8))
    assert results.rating.level == "inconclusive"
    assert "too small to rule out" in rating_sentence(results)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("failed", "checks of the audit failed (models)"),
        ("unreliable", "its figures are unreliable (models)"),
    ],
)
def test_a_failed_check_leaves_nothing_to_rate(
    audits: dict[float, AuditResults], status: Status, reason: str
) -> None:
    check = Outcome("models", status, "Too few.")
    results = rated_again(replace(audits[4.0], hygiene=(check,)))
    assert results.rating.level == "inconclusive"
    assert rating_sentence(results) == f"Rating: inconclusive, because {reason}."


def test_a_tpr_on_a_handful_of_non_members_is_not_rated(audits: dict[float, AuditResults]) -> None:
    results = audits[0.0]
    label, figures = next(iter(results.attacks.items()))
    lucky = tuple(replace(point, fpr=0.001, value=1.0, low=1.0, high=1.0) for point in figures.tpr_at_fpr)
    forged = {**results.attacks, label: replace(figures, tpr_at_fpr=lucky)}
    assert rate(rated(replace(results, attacks=forged))).level == results.rating.level


def test_one_exposed_record_is_not_nothing(audits: dict[float, AuditResults]) -> None:
    results = audits[0.0]
    assert results.exposed is not None
    one = replace(results.exposed, records=1, share=1 / 120)
    assert rate(rated(replace(results, exposed=one))).level == "low"


def with_canaries(results: AuditResults, low: float, high: float) -> AuditResults:
    auc = replace(results.headline.auc, value=(low + high) / 2, low=low, high=high)
    canaries = replace(results.headline.most_exposed, records=50, auc=auc, reason=None)
    return rated_again(replace(results, headline=replace(results.headline, canaries=canaries)))


def test_the_rating_is_the_worst_of_the_records_and_the_canaries(audits: dict[float, AuditResults]) -> None:
    results = with_canaries(audits[0.0], 0.93, 0.97)
    assert results.rating.level == "severe"
    sentence = rating_sentence(results)
    assert "AUC on 50 canaries" in sentence and "is at least 0.930; severe begins at 0.921." in sentence
    assert sentence.endswith("Without the canaries, the rating would be none found.")
    assert threshold(next(p for p in results.rating.parts if p.about == "canaries"), "severe") == auc_of(
        "severe"
    )


def test_safe_canaries_do_not_lower_the_rating_of_the_records(audits: dict[float, AuditResults]) -> None:
    results = with_canaries(audits[4.0], 0.48, 0.52)
    assert results.rating.level == "severe" and "canaries" not in rating_sentence(results)


def test_few_canaries_leave_nothing_found_as_it_is(audits: dict[float, AuditResults]) -> None:
    """Their interval is wide; what they could have missed is said."""
    results = with_canaries(audits[0.0], 0.2, 0.8)
    assert results.rating.level == "none found"
    assert "an AUC of up to 0.800 on canaries" in rating_sentence(results)


def test_an_audit_with_canaries_is_rated_by_them(tmp_path: Path) -> None:
    """Models that memorize wrong labels, of records that they fit well otherwise."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 200)
    features = (rng.normal(size=(200, 4)) + 4 * classes[:, None]).astype(np.float32)
    records = Records(features, classes, np.arange(200).astype(str), "two", class_names=("a", "b"))
    with quick_single_records(), quick_audits():
        verdict = audit(
            records, EstimatorRecipe(DecisionTreeClassifier()), out=tmp_path / "run", models=16,
            attacks=["loss", "lira"], canaries=Canaries(number=30),
        )  # fmt: skip
    parts = {part.about: part for part in verdict.results.rating.parts}
    assert verdict.rating == parts["canaries"].level
    assert LEVELS.index(parts["canaries"].level) > LEVELS.index(parts["auc"].level)


def test_the_rating_is_in_the_verdict(tmp_path: Path) -> None:
    with quick_single_records():
        verdict = made_up_audit(tmp_path / "run", 4.0)
    assert verdict.rating == verdict.results.rating.level == "severe"
    assert sum(line.startswith("Rating: severe. ") for line in verdict.summary()) == 1


def null_levels(n: int, folder: Path) -> Iterator[Level]:
    for seed in range(n):
        yield made_up_audit(
            folder / str(seed), 0.0, design_seed=seed, noise_seed=seed, fpr_budgets=(0.1,), towns=()
        ).results.rating.level


@pytest.mark.slow
def test_noise_alone_is_rarely_rated(tmp_path: Path) -> None:
    with quick_single_records():
        levels = list(null_levels(60, tmp_path))
    # At 5%, 60 populations have more than 7 false alarms with a probability of 1 in 200.
    assert sum(level not in ("none found", "inconclusive") for level in levels) <= 7
    assert not {"moderate", "high", "severe"} & set(levels)


def test_a_pass_beside_a_high_rating_is_explained(audits: dict[float, AuditResults]) -> None:
    """A gate with exit code 0 beside "severe" must say that it never looked at what is severe."""
    severe = with_worst_bits(with_auc(audits[0.0], 0.49, 0.51), 0.9, 1.0)
    loose = (LimitOutcome("max_auc", None, 0.6, 0.52, "lira", "passed", "Gate passed: ..."),)
    passed = replace(severe, gate=GateResult("passed", loose))
    because = " The gate passed because it sets no limit on this figure."
    for results, is_explained in ((passed, True), (replace(passed, gate=None), False)):
        results = replace(results, rating=rate(rated(results)))
        assert results.rating.level == "severe"
        assert rating_sentence(results).endswith(because) == is_explained
    by_auc = replace(passed, headline=with_auc(severe, 0.95, 0.99).headline)
    assert not rating_sentence(replace(by_auc, rating=rate(rated(by_auc)))).endswith(because)
    assert [row[0] for row in rating_rows(passed)] == [row[0] for row in rating_rows(severe)]


def test_a_suggested_gate_says_which_severe_figure_it_does_not_limit(
    audits: dict[float, AuditResults],
) -> None:
    severe = with_worst_bits(audits[0.0], 0.9, 1.0)
    severe = replace(severe, rating=rate(rated(severe)))
    (reason,) = [one for one in suggested_gate(severe).reasons if one.startswith("No limit")]
    assert "bits of the most exposed 1% of records, rated 'severe' here" in reason
    assert not [one for one in suggested_gate(audits[0.0]).reasons if one.startswith("No limit")]


@pytest.mark.parametrize(
    ("low", "high", "written"),
    [
        (0.057, 0.08, "5.7% to 8.0%"),
        (0.02, 0.123, "2% to 12%"),
        (0.985, 1.0, "98% to 100%"),
        (0.996, 1.0, "99.6% to 100.0%"),
    ],
)
def test_both_ends_of_an_interval_have_as_many_decimals(low: float, high: float, written: str) -> None:
    part = RatingPart("tpr", "TPR at 1% FPR (lira)", "severe", "severe", 1.0, low, high, 0.01)
    assert interval_of(part) == written


def test_a_rate_near_one_is_neither_a_power_of_ten_nor_one() -> None:
    part = RatingPart("tpr", "TPR at 1% FPR (lira)", "severe", "severe", 1.0, 0.996, 1.0, 0.01)
    assert [rating_sentences.shown(part, value) for value in (1.0, 0.996, 0.99, 0.08, 0.0)] == [
        "100%",
        "99.6%",
        "99%",
        "8%",
        "0%",
    ]
