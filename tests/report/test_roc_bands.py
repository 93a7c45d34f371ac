"""The ROC on a grid against the whole curve, ties and all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leakscope.report.roc_bands import roc_bands, tpr_on_grid
from leakscope.stats.roc import roc, split_scores
from leakscope.types import Design, Scores


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
        lambda pairs: len({is_in for _, is_in in pairs}) == 2
    )
)
def test_the_grid_is_the_best_point_of_the_curve_within_each_rate(pairs: list[tuple[int, bool]]) -> None:
    scores, is_member = np.array([s for s, _ in pairs], dtype=float), np.array([m for _, m in pairs])
    grid = np.geomspace(1 / (~is_member).sum(), 1, 25)
    curve = roc(scores, is_member)
    naive = [curve.tpr[curve.fpr <= rate * (1 + 1e-12)].max() for rate in grid]
    np.testing.assert_allclose(tpr_on_grid(split_scores(scores, is_member), grid), naive)


def test_infinite_scores_are_called_last_or_first() -> None:
    sides = split_scores(np.array([-np.inf, np.inf, -np.inf, 0.0]), np.array([True, True, False, False]))
    assert tpr_on_grid(sides, np.array([0.5, 1.0])).tolist() == [0.5, 1.0]


def test_bands_hold_the_mean_and_an_attack_of_yes_and_no_is_a_point() -> None:
    rng = np.random.default_rng(0)
    in_mask = rng.random((6, 50)) < 0.5
    ranked, told = (
        rng.normal(size=(6, 50)) + in_mask,
        (rng.random((6, 50)) < 0.3 + 0.4 * in_mask).astype(float),
    )
    targets = np.arange(6)
    bands = roc_bands(
        {"rank": Scores("rank", targets, ranked), "yes": Scores("yes", targets, told)}, Design(in_mask)
    )
    band = bands["rank"]
    assert band.yes is None and (band.low <= band.high).all() and band.mean[-1] == 1
    assert bands["yes"].yes == (told[~in_mask].mean(), told[in_mask].mean())
