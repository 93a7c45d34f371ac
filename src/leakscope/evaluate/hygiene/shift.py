"""Distribution shift: can members be told from non-members without any model?

If a classifier that sees features only tells them apart, the audit measures how the two sets were
gathered, not what the model remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.evaluate.hygiene.outcome import Outcome, Status
from leakscope.stats.intervals import delong

NAME = "shift"
_LEVEL = 0.999
_WARNS_ABOVE, _FAILS_ABOVE = 0.52, 0.55
"""Of the interval's lower end. Out-of-fold scores are not quite independent (their z has a standard deviation
of 1.4 where nothing is shifted), so chance needs a margin."""
_MOST_RECORDS, _MOST_FEATURES = 4_000, 64
_LEAST_ON_SIDE, _N_FOLDS = 20, 4


def shift_scores(
    features_of: Callable[[IntArray], AnyArray], is_member: BoolArray, seed: int = 0
) -> FloatArray:
    """How much each record looks like a member, by a forest that was fitted on other records.

    Args:
        features_of: gives the features of the records at some indices, numbers (records, ...); long ones are
            projected on their main axes.
        is_member: bool (records,).
        seed: of the records drawn when there are many, and of the forest.

    Returns:
        float64 (records,); NaN for records that were not drawn, all NaN when a side is too small.
    """
    scores = np.full(len(is_member), np.nan)
    drawn = _drawn(len(is_member), seed)
    members = is_member[drawn]
    if min(members.sum(), (~members).sum()) < _LEAST_ON_SIDE:
        return scores
    x = _narrow(features_of(drawn).reshape(len(drawn), -1).astype(np.float32), seed)
    scores[drawn] = _out_of_fold(x, members, seed)
    return scores


def check_shift(scores: FloatArray | None, is_member: BoolArray) -> Outcome:
    """The AUC of `shift_scores`, with DeLong's interval."""
    asked = np.zeros(len(is_member), dtype=np.bool_) if scores is None else ~np.isnan(scores)
    if scores is None or not asked.any():
        why = "features are unknown" if scores is None else f"a side has fewer than {_LEAST_ON_SIDE} records"
        return Outcome(
            NAME, "not checked", f"A shift between members and non-members was not looked for: {why}."
        )
    found = delong(scores[asked], is_member[asked], _LEVEL)
    status: Status = "ok"
    if found.interval.low > _WARNS_ABOVE:
        status = "failed" if found.interval.low > _FAILS_ABOVE else "warning"
    numbers = {"auc": found.auc, "low": found.interval.low, "high": found.interval.high}
    told = f"Without any model, members are told from non-members with an AUC of {found.auc:.3f}"
    interval = f"({_LEVEL:.1%} interval {found.interval.low:.3f} to {found.interval.high:.3f})"
    meaning = (
        "as guessing would." if status == "ok" else "so part of what is measured is how they were gathered."
    )
    return Outcome(NAME, status, f"{told} {interval}, {meaning}", numbers)


def _drawn(n_records: int, seed: int) -> Any:
    if n_records <= _MOST_RECORDS:
        return np.arange(n_records)
    return np.sort(np.random.default_rng(seed).choice(n_records, _MOST_RECORDS, replace=False))


def _narrow(x: AnyArray, seed: int) -> AnyArray:
    """The main axes of long features, by random projection and a few power steps (Halko et al. 2011)."""
    if x.shape[1] <= _MOST_FEATURES:
        return x
    centred = x - x.mean(axis=0)
    n_axes = min(_MOST_FEATURES, len(x) - 1)
    axes = np.random.default_rng(seed).normal(size=(x.shape[1], n_axes + 10)).astype(np.float32)
    for _ in range(3):
        axes = np.linalg.qr(centred.T @ (centred @ axes))[0]
    _, _, turned = np.linalg.svd(centred @ axes, full_matrices=False)
    narrow: AnyArray = centred @ (axes @ turned[:n_axes].T)
    return narrow


def _out_of_fold(x: AnyArray, members: BoolArray, seed: int) -> FloatArray:
    """Scores by the trees that were fitted without the record's fold; a fold's mean is taken out.

    A fold's base rate goes against its own records; without it, pooled scores of a useless forest would
    fall below an AUC of one half.
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold

    scores = np.empty(len(x))
    for fitted_on, asked in StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed).split(x, members):
        forest = ExtraTreesClassifier(60, min_samples_leaf=5, random_state=seed, n_jobs=1)
        answers = forest.fit(x[fitted_on], members[fitted_on]).predict_proba(x[asked])[:, 1]
        scores[asked] = answers - answers.mean()
    return scores
