"""Uncertainty: closed forms, the split that adds up, and which side is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from leakscope.hardness import uncertainty as rooms
from leakscope.hardness.uncertainty import own_class_uncertainty, uncertainty_of_logits


def naive(probabilities, counted):
    """One record at a time, straight from the definition."""
    rows = []
    for i in range(probabilities.shape[1]):
        p = probabilities[counted[:, i], i]
        predictive = -sum(q * np.log(q) for q in p.mean(axis=0))
        aleatoric = np.mean([-sum(q * np.log(q) for q in row) for row in p])
        variance = sum(np.mean((p[:, c] - p[:, c].mean()) ** 2) for c in range(p.shape[1]))
        rows.append([predictive, aleatoric, predictive - aleatoric, variance])
    return np.array(rows).T


def test_passes_that_are_sure_of_different_classes_differ_only_by_the_model():
    parts = uncertainty_of_logits(np.array([[[900.0, 0.0, 0.0]], [[0.0, 900.0, 0.0]]]))
    assert parts.predictive == pytest.approx(np.log(2))
    assert parts.aleatoric == pytest.approx(0, abs=1e-12)
    assert parts.epistemic == pytest.approx(np.log(2))


def test_passes_that_agree_leave_nothing_to_the_model():
    p = np.broadcast_to([0.2, 0.3, 0.5], (7, 4, 3))
    parts = uncertainty_of_logits(np.log(p))
    np.testing.assert_allclose(parts.epistemic, 0, atol=1e-12)
    np.testing.assert_allclose(parts.aleatoric, parts.predictive)


def test_it_is_the_definition_and_parts_make_the_whole(monkeypatch):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (9, 13, 4))
    counted = rng.random((9, 13)) < 0.5
    counted[0] = True
    parts = uncertainty_of_logits(logits, counted)
    np.testing.assert_allclose(parts, naive(special.softmax(logits, axis=2), counted), atol=1e-12)
    monkeypatch.setattr(rooms, "_NUMBERS_AT_ONCE", 9 * 4 * 5)
    np.testing.assert_array_equal(uncertainty_of_logits(logits, counted), parts)


def test_huge_logits_stay_finite():
    parts = uncertainty_of_logits(np.array([[[1e4, -1e4]], [[-1e4, 1e4]]], dtype=np.float32))
    assert parts.epistemic == pytest.approx(np.log(2))


def test_a_record_without_a_pass_has_none():
    parts = uncertainty_of_logits(np.zeros((2, 2, 2)), np.array([[True, False], [True, False]]))
    for part in parts:
        assert np.isfinite(part[0]) and np.isnan(part[1])


@given(st.integers(0, 2**32 - 1))
def test_merging_classes_never_adds_information(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, rng.choice([0.1, 1, 10]), (5, 6, 3))
    own = logits[..., 0] - special.logsumexp(logits[..., 1:], axis=2)
    whole, merged = uncertainty_of_logits(logits), own_class_uncertainty(own)
    for entropy in ("predictive", "aleatoric", "epistemic"):  # a variance is no information
        assert (getattr(merged, entropy) <= getattr(whole, entropy) + 1e-9).all()
    assert (whole.epistemic >= 0).all()
    assert (whole.predictive <= np.log(3) + 1e-12).all()


def test_two_classes_merge_to_themselves():
    logits = np.random.default_rng(0).normal(0, 2, (5, 6, 2))
    np.testing.assert_allclose(
        own_class_uncertainty(logits[..., 1] - logits[..., 0]), uncertainty_of_logits(logits), atol=1e-12
    )
