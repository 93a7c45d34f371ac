"""Each planted fault is named by its check and by no other; a clean population raises nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.array_types import AnyArray, IntArray
from leakscope.attacks.lira import Lira
from leakscope.evaluate import judge
from leakscope.evaluate.attacked import Attacked, converged_models
from leakscope.evaluate.hygiene.accuracy import check_accuracy
from leakscope.evaluate.hygiene.balance import check_balance
from leakscope.evaluate.hygiene.causes import (
    OF_REFERENCES,
    SWAPPED,
    SWAPPED_MEMBERS,
    in_order,
    likely_in,
)
from leakscope.evaluate.hygiene.duplicates import check_duplicates
from leakscope.evaluate.hygiene.members import AttackedModels, check_members, models_to_check, recognition
from leakscope.evaluate.hygiene.outcome import Outcome, prediction_test
from leakscope.evaluate.hygiene.shift import check_shift, early_search, search_for_shift
from leakscope.types import Design, Scores, Signals
from tests.evaluate.hygiene.populations import Population, outcomes, population, with_wrong_members
from tests.made_up_audits import made_up_bank

SEEDS = [pytest.param(range(2), id="2"), pytest.param(range(2, 10), id="8 more", marks=pytest.mark.slow)]


def raised(given: Population, single: bool = True) -> dict[str, str]:
    """Checks that found something, and how bad it is."""
    return {o.name: o.status for o in outcomes(given, single) if o.status in ("warning", "failed")}


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("single", [True, False])
def test_a_clean_population_raises_nothing(single: bool, seeds: range) -> None:
    """By design about one alarm in some hundred populations is chance."""
    assert [raised(population(seed), single) for seed in seeds] == [{}] * len(seeds)


def test_copies_across_the_sides_are_named() -> None:
    clean = population(0)
    copied = np.arange(len(clean.features))
    copied[300:340] = np.arange(40)
    assert raised(replace(clean, duplicate_of=copied)) == {"duplicates": "failed"}


def test_the_share_of_copied_nonmembers_is_counted() -> None:
    duplicate_of = np.array([0, 0, 2, 3, 3, 5])
    in_mask = np.array([[True, False, True, False, False, True]])  # record 1 copies 0; 3 and 4 stay together
    found = check_duplicates(duplicate_of, in_mask)
    assert found.numbers == {"records_with_a_copy": 4.0, "share_of_nonmembers": pytest.approx(1 / 3)}
    together = check_duplicates(np.array([0, 0, 2, 3]), np.array([[True, True, False, False]]))
    assert together.status == "ok"
    assert check_duplicates(None, in_mask).status == "not checked"


def test_a_target_that_learned_otherwise_is_named() -> None:
    clean = population(0)
    log_odds = clean.log_odds.copy()
    log_odds[0] -= 1.5
    assert raised(replace(clean, log_odds=log_odds))["accuracy"] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("share_of_rare", [0.5, 0.02])
def test_a_model_that_learned_little_is_not_taken_for_shuffled_outputs(share_of_rare: float) -> None:
    """Right for 55% where classes are equally frequent; or it names the frequent class nearly always."""
    rng, shape = np.random.default_rng(0), (17, 400)
    labels, in_mask = (rng.random(400) < share_of_rare).astype(np.int64), rng.random(shape) < 0.5
    right = rng.random(shape) < (0.55 if share_of_rare == 0.5 else np.where(labels, 0.05, 0.999))
    assert check_accuracy(right, in_mask, np.array([0]), labels).status == "ok"


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_members_that_were_never_trained_on_are_named(share: float) -> None:
    found = [
        next(o for o in outcomes(with_wrong_members(population(seed), share)) if o.name == "members")
        for seed in range(4)
    ]
    assert [o.status for o in found] == ["failed"] * 4
    assert np.mean([o.numbers["wrong_share"] for o in found]) == pytest.approx(share, abs=0.12)
    assert f"{found[0].numbers['wrong_share']:.0%} of the stated members of one target" in found[0].sentence


@pytest.mark.parametrize(
    ("sign", "first"), [(1, "the member list is"), (-1, "members and non-members are sw")]
)
def test_a_list_of_nonmembers_is_named_before_other_causes(sign: int, first: str) -> None:
    clean = population(0)
    wrong = with_wrong_members(clean, 0.9) if sign > 0 else swapped(clean)
    found = next(one for one in outcomes(wrong) if one.name == "members")
    assert found.status == "failed" and found.causes[0].startswith(first)
    assert f"them {abs(found.numbers['target_recognition']):.3f} {'higher' if sign > 0 else 'lower'}" in (
        found.sentence
    )


def swapped(clean: Population) -> Population:
    """The first model's stated members are its non-members."""
    stated = clean.stated.copy()
    stated[0] = ~stated[0]
    return replace(clean, stated=stated)


def test_causes_are_those_of_the_kind_of_audit() -> None:
    """Of saved outputs leakscope sees no features; documents have no scale."""
    failed = Outcome("accuracy", "failed", "", {}, (SWAPPED, *OF_REFERENCES))
    saved = likely_in(failed, "predictions", is_text=False).causes
    assert saved[:2] == (SWAPPED, saved[1]) and saved[1].startswith("a column is the wrong one")
    assert not any("reach the model" in cause or "preprocessed" in cause for cause in saved)
    given = likely_in(failed, "given model", is_text=False).causes
    assert any("standardise = false" in cause for cause in given)
    assert "documents" in likely_in(failed, "given model", is_text=True).causes[1]
    assert in_order([*OF_REFERENCES, SWAPPED_MEMBERS, *OF_REFERENCES]) == [SWAPPED_MEMBERS, *OF_REFERENCES]


def test_a_model_worse_than_a_coin_on_its_own_members_has_swapped_labels() -> None:
    labels, in_mask = np.arange(400) % 2, np.ones((1, 400), dtype=bool)
    correct = np.arange(400)[None] % 10 == 0
    assert check_accuracy(correct, in_mask, np.array([0]), labels).causes[0] == SWAPPED


def test_a_wrong_list_cannot_be_seen_where_nothing_leaks() -> None:
    rng = np.random.default_rng(0)
    in_mask = rng.random((8, 200)) < 0.5
    found = check_members(AttackedModels(np.arange(8), rng.normal(0, 0.1, (8, 200)), in_mask), np.array([0]))
    assert found.status == "not checked"
    assert "leak too little" in found.sentence
    assert check_members(None, np.array([0])).status == "not checked"


def test_a_target_is_compared_with_at_most_31_others() -> None:
    assert models_to_check(np.array([2]), 5).tolist() == [0, 1, 2, 3, 4]
    chosen = models_to_check(np.array([0]), 1_000)
    assert len(chosen) == 32 and chosen[0] == 0 and chosen[-1] == 999
    assert models_to_check(np.arange(40), 40).tolist() == list(range(40))
    assert models_to_check(np.array([0]), 1).tolist() == [0]


@pytest.mark.parametrize("target", (0, 1, 5))
def test_models_are_compared_by_their_number_not_by_their_row(target: int) -> None:
    rng = np.random.default_rng(1)
    models, in_mask = np.array([0, 1, 5, 7, 8, 9]), rng.random((6, 400)) < 0.5
    scores = np.where(in_mask, 3.0, -3.0) + rng.normal(0, 3, in_mask.shape)
    row = int(np.flatnonzero(models == target)[0])
    scores[row] = rng.normal(0, 3, 400)  # its stated members are none of its members
    outcomes = {
        one: check_members(AttackedModels(models, scores, in_mask), np.array([one])) for one in models
    }
    assert outcomes.pop(target).status == "failed"
    assert "failed" not in {outcome.status for outcome in outcomes.values()}


def test_a_sample_of_many_records_knows_the_models_that_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = made_up_bank(tmp_path / "bank", 0.0, diverged=(3, 6))
    signals, design = converged_models(bank)
    designs: list[Design] = []

    class Known(Lira):
        def __call__(self, signals: Signals, design: Design, *rest: Any) -> Scores:
            designs.append(design)
            return super().__call__(signals, design, *rest)

    monkeypatch.setattr(judge, "_CHECKED_RECORDS", 50)
    monkeypatch.setattr(judge, "EbLira", lambda **_: Known())
    judge._attacked_to_compare(Attacked(bank, signals, design, np.array([0]), {}, {}))
    (sampled,) = designs
    assert sampled.n_records == 50 and sampled.diverged is not None
    np.testing.assert_array_equal(sampled.diverged.numbers, [3, 6])


def test_recognition_is_the_difference_of_mean_beliefs() -> None:
    scores = np.array([[2.0, -1.0, 0.0, 900.0]])
    in_mask = np.array([[True, False, False, True]])
    expected = (np.tanh(1.0) + 1) / 2 - (np.tanh(-0.5) + 0) / 2
    assert recognition(scores, in_mask) == pytest.approx([expected])


def test_a_shift_between_the_sides_is_named() -> None:
    clean = population(0)
    features = clean.features + 1.2 * clean.stated[0][:, None] * (np.arange(6) < 2)
    assert raised(replace(clean, features=features.astype(np.float32))) == {"shift": "failed"}


def test_a_shift_only_a_crooked_line_can_see_is_named() -> None:
    """Members on a ring, others at its centre and outside: equal means."""
    rng = np.random.default_rng(0)
    is_member = np.arange(600) % 2 == 0
    radius = np.where(is_member, 1.0, rng.choice([0.2, 1.8], 600)) + rng.normal(0, 0.1, 600)
    angle = rng.uniform(0, 2 * np.pi, 600)
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    assert check_shift(search_for_shift(ring.__getitem__, is_member).scores(), is_member).status == "failed"


def test_too_few_records_are_not_tested_for_a_shift() -> None:
    is_member = np.arange(30) % 2 == 0
    scores = search_for_shift(np.zeros((30, 2)).__getitem__, is_member).scores()
    assert np.isnan(scores).all()
    assert check_shift(scores, is_member).status == "not checked"


@pytest.mark.slow
def test_many_records_are_drawn_and_long_ones_projected() -> None:
    rng = np.random.default_rng(0)
    is_member = rng.random(5_000) < 0.5
    scores = search_for_shift(rng.normal(size=(5_000, 4, 30)).__getitem__, is_member).scores()
    assert (~np.isnan(scores)).sum() == 4_000
    assert check_shift(scores, is_member).status == "ok"


@pytest.mark.parametrize(
    ("n_members", "n_others", "n_models", "status"),
    [(500, 500, 8, "ok"), (60, 500, 8, "warning"), (500, 5, 8, "failed"), (500, 500, 2, "warning")],
)
def test_too_few_records_or_models_are_named(
    n_members: int, n_others: int, n_models: int, status: str
) -> None:
    target = np.arange(n_members + n_others) < n_members
    references = np.arange(n_models)[:, None] % 2 == np.arange(n_members + n_others) % 2
    assert check_balance(target[None], references).status == status
    assert check_balance(target[None], references[:0]).numbers["thin_share"] == 0


def test_the_sentence_of_the_balance_counts_as_people_do() -> None:
    one = np.arange(9) < 1
    thin = np.arange(4)[:, None] % 2 == np.arange(9) % 2
    few = "fewer than 100 give wide intervals."
    assert check_balance(one[None], thin).sentence == f"The target has 1 member and 8 non-members; {few}"
    assert check_balance(np.stack([one, one]), thin).sentence == (
        f"Every target has at least 1 member and 1 non-member; {few}"
    )
    assert "2 members and 7 non-members" in check_balance((np.arange(9) < 2)[None], thin).sentence
    never = np.zeros((4, 3000), dtype=bool)
    never[:2, 1:] = True
    rare = check_balance((np.arange(3000) < 1500)[None], never).sentence
    assert "; less than 0.1% of the records have fewer than 2 models trained with them" in rare


def test_one_more_draw_is_as_odd_as_it_should_be() -> None:
    """p-values of a fresh draw are uniform."""
    rng = np.random.default_rng(0)
    p = np.array([prediction_test(row[0], row[1:]).p_lower for row in rng.normal(size=(4_000, 6))])
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.012)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.03)
    assert prediction_test(0.9, np.array([1.0, 1.0, 1.0]), 0.01).p_lower > 0.1
    assert prediction_test(0.9, np.array([1.0, 1.0, 1.0])).p_lower == 0


def test_an_early_search_holds_no_large_features(monkeypatch: pytest.MonkeyPatch) -> None:
    is_member = np.arange(100) % 2 == 0
    read: list[int] = []

    def features_of(records: IntArray) -> AnyArray:
        read.append(len(records))
        return np.zeros((len(records), 8), np.float32)

    assert early_search(features_of, is_member) is None and not read  # there is no second process
    monkeypatch.setattr("leakscope.evaluate.hygiene.shift.is_running", lambda: True)
    begun = early_search(features_of, is_member)
    assert begun is not None and begun.forests is not None and read == [1, 100]
    monkeypatch.setattr("leakscope.evaluate.hygiene.shift.MOST_BYTES", 100 * 8 * 4 - 1)
    assert early_search(features_of, is_member) is None and read == [1, 100, 1]
