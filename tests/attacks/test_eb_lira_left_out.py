"""Kinds of records when models are left out to see how much scores depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leakscope.attacks.blocks import Blocks
from leakscope.attacks.eb_lira import EbLira
from leakscope.design import make_design
from leakscope.stats.record_types import log_marginal
from leakscope.types import Design, Signals


def a_population(design: str) -> tuple[Signals, Design]:
    rng = np.random.default_rng(4)
    made = make_design(design, 16, 400, 1)
    shift = rng.gamma(1.0, 1.0, 400) * made.in_mask
    outputs = rng.normal(size=(16, 400)) * rng.gamma(2.0, 1.0, 400) + shift
    return Signals({"log_odds": outputs[:, None].astype(np.float32)}, (1,), rng.integers(0, 2, 400)), made


def folds_of(attack: Any, signals: Signals, design: Design) -> list[Any]:
    blocks = Blocks(signals, design, np.arange(design.n_models), attack.reads_from(signals))
    return list(attack.statistics(blocks))


@pytest.mark.parametrize("design_name", ["balanced", "bernoulli", "pairs"])
def test_kinds_fit_the_models_that_are_left(design_name: str) -> None:
    signals, design = a_population(design_name)
    fitted = EbLira().fitted(signals, design, np.arange(16))
    left = np.arange(2, 16)
    before = {tuple(fold.rows): fold for fold in folds_of(fitted, signals, design)}
    after = folds_of(fitted, signals.take(left), design.take(left))
    gains = []
    for fold in after:
        old = next(one for rows, one in before.items() if set(left[fold.rows]) <= set(rows))
        gone = fold.fitted_to.learned.gone(left)
        if not len(gone):  # they are targets of this very fold, which did not learn from them
            assert fold.types is old.types
            continue
        sums = fold.fitted_to.learned.sums_without(gone, fold.fitted_to.sums, fold.scale)
        likelihoods = [log_marginal(one.types, sums).sum() for one in (old, fold)]
        gains.append(likelihoods[1] - likelihoods[0])
    assert len(gains) >= 6 and min(gains) > 0


def test_with_all_models_the_fit_is_the_one_scores_are_from() -> None:
    signals, design = a_population("balanced")
    fitted = EbLira().fitted(signals, design, np.arange(16))
    everything = folds_of(fitted, signals, design)
    assert [a.types for a in everything] == [b.types for b in fitted.folds]  # type: ignore[attr-defined]
    again = EbLira()(signals, design, np.arange(16)).values
    np.testing.assert_array_equal(fitted(signals, design, np.arange(16)).values, again)
