"""Edges of the histograms of scores: a page without single records must not give two of them away."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.array_types import FloatArray
from leakscope.audits.report.page_figures import _edges


def normal(n: int = 4_000) -> FloatArray:
    return np.random.default_rng(0).normal(size=(4, n // 4))


@pytest.mark.parametrize(("outlier", "n_outliers"), [(-np.inf, 1), (-np.inf, 200), (-1e6, 1), (-1e6, 40)])
def test_edges_are_quantiles_whatever_the_lowest_scores_are(outlier: float, n_outliers: int) -> None:
    """200 infinite scores are beyond both tails: edges then are quantiles of the finite ones."""
    scores = normal()
    scores.flat[:n_outliers] = outlier
    edges = _edges(scores)
    finite = np.sort(scores[np.isfinite(scores)])
    assert finite[0] < edges[0] and edges[-1] < finite[-1]
    if np.isinf(outlier):
        assert edges[0] == pytest.approx(np.quantile(finite, 0.02))


def test_one_record_among_equal_scores_is_no_edge() -> None:
    """98% of the scores are 0: the highest and lowest are of one record each."""
    scores = np.zeros((4, 1_000))
    scores[0, :2] = -3.125, 7.375
    edges = _edges(scores)
    assert not {-3.125, 7.375} & {float(edges[0]), float(edges[-1])}
    assert edges[0] < edges[-1]


def test_scores_of_two_values_keep_both() -> None:
    scores = np.ones((4, 1_000))
    scores[:, :10] = 0.0
    assert (_edges(scores)[0], _edges(scores)[-1]) == (0.0, 1.0)
