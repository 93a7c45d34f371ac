"""Member lists of reference models: wrong ones are detected, right ones are not suspected."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.array_types import BoolArray, FloatArray
from leakscope.evaluate.hygiene.reference_members import check_reference_members

N_REFERENCES, N_RECORDS = 16, 1_000


def models(
    seed: int, gap: float, n_references: int = N_REFERENCES, n_records: int = N_RECORDS, uneven: float = 0.0
) -> tuple[FloatArray, BoolArray]:
    """Log-odds of a target and its references, and who was a member; gaps vary by `uneven` between models."""
    rng = np.random.default_rng([seed, n_references])
    in_mask = np.argsort(rng.random((1 + n_references, n_records)), axis=1) < n_records // 2
    of_models = gap * np.exp(uneven * rng.normal(size=(1 + n_references, 1)))
    difficulty = rng.normal(1.5, 2.5, n_records)
    return difficulty + of_models * in_mask + 0.7 * rng.normal(size=in_mask.shape), in_mask


def off_by_one(in_mask: BoolArray, rng: np.random.Generator) -> BoolArray:
    return np.roll(in_mask, 1, axis=0)


def in_another_order(in_mask: BoolArray, rng: np.random.Generator) -> BoolArray:
    return in_mask[:, rng.permutation(in_mask.shape[1])]


def each_in_another_order(in_mask: BoolArray, rng: np.random.Generator) -> BoolArray:
    return np.stack([rng.permutation(row) for row in in_mask])


@pytest.mark.parametrize("lists", [off_by_one, in_another_order, each_in_another_order])
@pytest.mark.parametrize("gap", [0.7, 1.5, 3.0])
def test_wrong_lists_fail(lists, gap: float) -> None:
    """Attacks would learn nothing from such references, and a leaking model would pass its gate."""
    for seed in range(10):
        log_odds, in_mask = models(seed, gap)
        in_mask[1:] = lists(in_mask[1:], np.random.default_rng(seed))
        check = check_reference_members(log_odds, in_mask, 0)
        assert check.status == "failed" and "member lists" in check.causes[0]
        assert f"{check.numbers['target']:.2f}" in check.sentence


def test_references_that_leak_far_less_fail_and_those_that_leak_less_are_a_warning() -> None:
    log_odds, in_mask = models(0, 0.1)
    log_odds[0] += 0.6 * in_mask[0]
    assert check_reference_members(log_odds, in_mask, 0).status == "failed"
    log_odds, in_mask = models(0, 0.6)
    log_odds[0] += 0.3 * in_mask[0]
    assert check_reference_members(log_odds, in_mask, 0).status == "warning"


@pytest.mark.parametrize("uneven", [0.0, 0.05])
@pytest.mark.parametrize("gap", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(("n_references", "n_records"), [(3, 200), (8, 200), (16, 1_000), (4, 20)])
def test_right_lists_are_not_suspected(n_references: int, n_records: int, gap: float, uneven: float) -> None:
    statuses = [
        check_reference_members(*models(seed, gap, n_references, n_records, uneven), 0).status
        for seed in range(100)
    ]
    assert statuses.count("failed") == 0 and statuses.count("warning") <= 2


@pytest.mark.parametrize("quantity", ["residuals", "loss"])
def test_members_have_smaller_residuals_and_losses(quantity) -> None:
    rng, (_, in_mask) = np.random.default_rng(0), models(1, 0.0)
    noise = rng.normal(size=in_mask.shape)
    values = np.where(in_mask, 0.4, 1.0) * (noise if quantity == "residuals" else 2 + noise)
    assert check_reference_members(values, in_mask, 0, quantity).status == "ok"
    in_mask[1:] = off_by_one(in_mask[1:], rng)
    assert check_reference_members(values, in_mask, 0, quantity).status == "failed"


def test_a_sample_of_many_records_decides() -> None:
    log_odds, in_mask = models(2, 1.0, 4, 50_000)
    assert check_reference_members(log_odds, in_mask, 0).status == "ok"
    in_mask[1:] = off_by_one(in_mask[1:], np.random.default_rng(0))
    assert check_reference_members(log_odds, in_mask, 0).status == "failed"


def test_without_enough_references_of_both_kinds_nothing_is_checked() -> None:
    log_odds, in_mask = models(3, 1.0)
    assert check_reference_members(None, in_mask, 0).status == "not checked"
    assert check_reference_members(log_odds[:3], in_mask[:3], 0).status == "not checked"
    in_mask[1:] = False
    assert check_reference_members(log_odds, in_mask, 0).status == "not checked"
