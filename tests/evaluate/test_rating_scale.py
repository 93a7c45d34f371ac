"""The scale of a rating: a level begins at its whole number, and more leakage never lies further left."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.evaluate.rating import LEVELS, WORST_BITS, auc_of, tpr_of
from leakscope.evaluate.rating_results import RatingPart
from leakscope.evaluate.rating_scale import place

AUC = RatingPart("auc", "AUC", "low", "low", 0.6, 0.55, 0.65, None)
TPR = RatingPart("tpr", "TPR", "low", "low", 0.03, 0.02, 0.04, 0.01)
WORST = RatingPart("worst", "bits", "low", "low", 0.1, 0.06, 0.14, None)


def begins(part: RatingPart) -> list[float]:
    if part.about == "auc":
        return [auc_of(level) for level in LEVELS[1:]]
    if part.about == "tpr":
        return [tpr_of(level, 0.01) for level in LEVELS[1:]]
    return [WORST_BITS[level] for level in LEVELS[1:]]


@pytest.mark.parametrize("part", [AUC, TPR, WORST], ids=lambda part: part.about)
def test_a_level_begins_at_its_number(part: RatingPart) -> None:
    assert [place(part, value) for value in begins(part)] == pytest.approx([1, 2, 3, 4])
    for k, value in enumerate(begins(part), 1):
        assert int(place(part, value - 1e-6)) == k - 1


@pytest.mark.parametrize("part", [AUC, TPR, WORST], ids=lambda part: part.about)
def test_it_rises_and_stays_on_the_scale(part: RatingPart) -> None:
    places = [place(part, value) for value in np.linspace(-0.5, 1.5, 401)]
    assert (np.diff(places) >= 0).all() and places[0] == 0 and places[-1] == len(LEVELS)
