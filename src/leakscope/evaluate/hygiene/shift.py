"""Distribution shift: can members be distinguished from non-members without the model?

If a classifier can do so from the features alone, the audit measures how the two sets were collected, not
what the model remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import on_threads
from leakscope.disk.second_process import MOST_BYTES, Job, is_running
from leakscope.evaluate.hygiene.outcome import Outcome, Status
from leakscope.stats.intervals import delong

NAME = "shift"
_LEVEL = 0.999
_WARNS_ABOVE, _FAILS_ABOVE = 0.52, 0.55
"""Thresholds for the lower end of the interval. Out-of-fold scores are not quite independent (without a
shift, their z has a standard deviation of 1.4), hence the margin above 0.5."""
_MOST_RECORDS, _MOST_FEATURES = 4_000, 64
_LEAST_RECORDS, _N_FOLDS = 20, 4


FeaturesOf = Callable[[IntArray], AnyArray]
"""Returns the features of the records at some indices, numbers (records, ...)."""


class ShiftSearch(NamedTuple):
    """A search for a shift under way: the forests may grow in a second process.

    Attributes:
        is_member: bool (records,).
        sample: int64 (sampled records,).
        forests: their scores of the sample; None: there are too few members or non-members.
    """

    is_member: BoolArray
    sample: IntArray
    forests: Job[FloatArray] | None

    def scores(self) -> FloatArray:
        """How much each record looks like a member to a forest fitted on other records.

        Returns:
            float64 (records,); NaN for records outside the sample, all NaN with too few of a side.
        """
        scores = np.full(len(self.is_member), np.nan)
        if self.forests is not None:
            scores[self.sample] = self.forests.result()
        return scores


def search_for_shift(features_of: FeaturesOf, is_member: BoolArray, seed: int = 0) -> ShiftSearch:
    """Begins a search.

    Args:
        features_of: features of records; long ones are projected on their principal axes.
        is_member: bool (records,).
        seed: seed of the sample drawn when there are many records, and of the forest.
    """
    sample = _sample(len(is_member), seed)
    members = is_member[sample]
    if min(members.sum(), (~members).sum()) < _LEAST_RECORDS:
        return ShiftSearch(is_member, sample, None)
    features = features_of(sample).reshape(len(sample), -1).astype(np.float32)
    return ShiftSearch(is_member, sample, Job(forest_scores, features, members, seed))


def early_search(features_of: FeaturesOf, is_member: BoolArray) -> ShiftSearch | None:
    """A search that a second process can begin now; None: there is none, or features are too large for it.

    Large ones would stay in memory while models are trained.
    """
    if not is_running():
        return None
    n_bytes = features_of(np.zeros(1, np.int64)).size * 4 * min(len(is_member), _MOST_RECORDS)
    return search_for_shift(features_of, is_member) if n_bytes <= MOST_BYTES else None


def forest_scores(features: AnyArray, members: BoolArray, seed: int) -> FloatArray:
    """The scores of a sample, float32 (records, features)."""
    return _out_of_fold(_narrow(features, seed), members, seed)


def check_shift(scores: FloatArray | None, is_member: BoolArray) -> Outcome:
    """The AUC of the scores of a search, with DeLong's interval."""
    if scores is None:
        return _not_checked("the features are unknown")
    has_score = ~np.isnan(scores)
    if not has_score.any():
        return _not_checked(f"it takes {_LEAST_RECORDS} members and {_LEAST_RECORDS} non-members")
    auc, _, interval = delong(scores[has_score], is_member[has_score], _LEVEL)
    status: Status = "ok"
    if interval.low > _WARNS_ABOVE:
        status = "failed" if interval.low > _FAILS_ABOVE else "warning"
    meaning = "no better than guessing" if status == "ok" else "part of the leakage may be this difference"
    sentence = (
        f"Without the model, a classifier separates members from non-members with an AUC of {auc:.3f} "
        f"({_LEVEL:.1%} interval {interval.low:.3f} to {interval.high:.3f}): {meaning}."
    )
    return Outcome(NAME, status, sentence, {"auc": auc, "low": interval.low, "high": interval.high})


def _not_checked(reason: str) -> Outcome:
    sentence = f"A shift between members and non-members was not searched for: {reason}."
    return Outcome(NAME, "not checked", sentence)


def _sample(n_records: int, seed: int) -> IntArray:
    if n_records <= _MOST_RECORDS:
        return np.arange(n_records)
    sample = np.random.default_rng(seed).choice(n_records, _MOST_RECORDS, replace=False)
    return np.sort(sample)


def _narrow(x: AnyArray, seed: int) -> AnyArray:
    """Long features, projected on their principal axes."""
    if x.shape[1] <= _MOST_FEATURES:
        return x
    from sklearn.decomposition import PCA

    axes = PCA(min(_MOST_FEATURES, len(x) - 1), svd_solver="randomized", random_state=seed)
    return np.asarray(axes.fit_transform(x))


def _out_of_fold(x: AnyArray, members: BoolArray, seed: int) -> FloatArray:
    """Scores by forests fitted without the record's fold, minus the mean of the fold.

    The base rate of the other folds runs against the fold's own; with it, the pooled scores of a useless
    forest would have an AUC below one half.
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold

    scores = np.empty(len(x))

    def fill(fold: tuple[IntArray, IntArray]) -> None:
        train, test = fold
        forest = ExtraTreesClassifier(60, min_samples_leaf=5, random_state=seed, n_jobs=1)
        member_probability = forest.fit(x[train], members[train]).predict_proba(x[test])[:, 1]
        scores[test] = member_probability - member_probability.mean()

    folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
    on_threads(fill, list(folds.split(x, members)), x.size)  # trees grow without Python's lock
    return scores
