"""Distribution shift: can members be distinguished from non-members without the model?

If a classifier can do so from the features alone, the audit measures how the two sets were collected, not
what the model remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.second_process import MOST_BYTES, Job, is_running
from leakscope.evaluate.hygiene.forest import Fold, forest_probabilities
from leakscope.evaluate.hygiene.outcome import Outcome, Status
from leakscope.evaluate.hygiene.words import bags_of_words, word_scores
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.stats.intervals import delong

NAME = "shift"
N_TREES = 60
"""Of the forest of a fold."""
_LEVEL = 0.999
_SEED = 0  # of the sample, the folds and the forests
_WARNS_ABOVE, _FAILS_ABOVE = 0.52, 0.55
"""Thresholds for the lower end of the interval. Out-of-fold scores are not quite independent (without a
shift, their z has a standard deviation of 1.4), hence the margin above 0.5."""
_FAILURE = (
    "they differ before any model is trained, and part of the leakage may be this difference. Take members "
    "and non-members at random from one source"
)
_MOST_RECORDS, _MOST_FEATURES = 4_000, 64
_LEAST_RECORDS, _N_FOLDS = 20, 4
_MORE_DIRECTIONS, _POWER_ITERATIONS = 10, 4


FeaturesOf = Callable[[IntArray], AnyArray]
"""Returns the features of the records at some indices, numbers (records, ...)."""
TextsOf = Callable[[IntArray], Sequence[str]]
"""Returns the documents at some indices."""


@dataclass(frozen=True, eq=False)
class ShiftScores:
    """How much each record looks like a member; a second process may still be at work on it.

    Attributes:
        later: returns the scores, and waits for them.
    """

    later: Callable[[], FloatArray]

    @cached_property
    def values(self) -> FloatArray:
        """float64 (records,); NaN for records outside the sample, all NaN with too few of a side."""
        return self.later()

    def of(self, index: IntArray) -> ShiftScores:
        """Those of some records."""
        return ShiftScores(lambda: self.values[index])


class ShiftTask(NamedTuple):
    """What forests are fitted to.

    Attributes:
        features: float32 (records, features).
        members: bool (records,).
        units: int64 (records,), from 0; a fold has all records of a unit.
    """

    features: AnyArray
    members: BoolArray
    units: IntArray


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
        """How much each record looks like a member to a forest fitted on records of other units.

        Returns:
            float64 (records,); NaN for records outside the sample, all NaN with too few of a side.
        """
        scores = np.full(len(self.is_member), np.nan)
        if self.forests is not None:
            scores[self.sample] = self.forests.result()
        return scores


def search_for_shift(
    features_of: FeaturesOf, is_member: BoolArray, units: IntArray | None = None
) -> ShiftSearch:
    """Begins a search.

    Records of one person are alike and are members together, so a forest fitted on some of them would
    recognize the others; it is fitted on records of other units.

    Args:
        features_of: features of records; long ones are projected on their principal axes.
        is_member: bool (records,).
        units: int64 (records,), the unit of each record; None: every record is one.
    """
    drawn = _drawn(is_member, units)
    if not drawn.are_enough:
        return ShiftSearch(is_member, drawn.sample, None)
    features = features_of(drawn.sample).reshape(len(drawn.sample), -1).astype(np.float32)
    task = ShiftTask(features, drawn.members, drawn.units)
    return ShiftSearch(is_member, drawn.sample, Job(forest_scores, task))


def early_search(
    features_of: FeaturesOf, is_member: BoolArray, units: IntArray | None = None
) -> ShiftSearch | None:
    """A search that a second process can begin now; None: there is none, or features are too large for it.

    Large ones would stay in memory while models are trained.
    """
    if not is_running():
        return None
    n_bytes = features_of(np.zeros(1, np.int64)).size * 4 * min(len(is_member), _MOST_RECORDS)
    return search_for_shift(features_of, is_member, units) if n_bytes <= MOST_BYTES else None


def text_shift_scores(texts_of: TextsOf, is_member: BoolArray, units: IntArray | None = None) -> FloatArray:
    """The same for documents: how much each looks like a member to a regression on words.

    Args:
        texts_of: returns the documents at some indices.
        is_member: bool (records,).
        units: int64 (records,), the unit of each document; None: every document is one.
    """
    scores, drawn = np.full(len(is_member), np.nan), _drawn(is_member, units)
    if drawn.are_enough:
        folds = _folds(drawn.members, drawn.units)
        scores[drawn.sample] = word_scores(bags_of_words(texts_of(drawn.sample)), drawn.members, folds)
    return scores


class _Drawn(NamedTuple):
    """A sample of the records: their indices, members, units from 0, and whether a check is possible."""

    sample: IntArray
    members: BoolArray
    units: IntArray
    are_enough: bool


def _drawn(is_member: BoolArray, units: IntArray | None) -> _Drawn:
    sample = _sample(len(is_member))
    members = is_member[sample]
    units = np.arange(len(is_member)) if units is None else units
    _, first, of_sample = np.unique(units[sample], return_index=True, return_inverse=True)
    fewest = min(members[first].sum(), (~members[first]).sum())
    return _Drawn(sample, members, of_sample, bool(fewest >= _LEAST_RECORDS))


def forest_scores(task: ShiftTask) -> FloatArray:
    """The scores of a sample."""
    return _out_of_fold(task._replace(features=_narrow(task.features)))


def check_shift(
    scores: FloatArray | None,
    is_member: BoolArray,
    units: IntArray | None = None,
    noun: Noun = RECORD,
    of_words: bool = False,
) -> Outcome:
    """The AUC of the scores of a search, of units their mean, with DeLong's interval.

    Args:
        scores: float64 (records,); None: the features are unknown.
        is_member: bool (records,).
        units: int64 (records,), the unit of each record; None: every record is one.
        noun: what members are.
        of_words: the scores are those of documents.
    """
    if scores is None:
        return _not_checked("the features are unknown")
    has_score = ~np.isnan(scores)
    if not has_score.any():
        return _not_checked(f"it takes {_LEAST_RECORDS} members and {_LEAST_RECORDS} non-members")
    scores, is_member = scores[has_score], is_member[has_score]
    if units is not None:
        _, first, own = np.unique(units[has_score], return_index=True, return_inverse=True)
        scores, is_member = np.bincount(own, weights=scores) / np.bincount(own), is_member[first]
    auc, _, interval = delong(scores, is_member, _LEVEL)
    status: Status = "ok"
    if interval.low > _WARNS_ABOVE:
        status = "failed" if interval.low > _FAILS_ABOVE else "warning"
    meaning = "no better than guessing" if status == "ok" else _FAILURE
    classifier = "a classifier of words" if of_words else "a classifier"
    sentence = (
        f"Without the model, {classifier} separates {_sides(noun)} with an AUC of {auc:.3f} "
        f"({_LEVEL:.1%} interval {interval.low:.3f} to {interval.high:.3f}): {meaning}."
    )
    return Outcome(NAME, status, sentence, {"auc": auc, "low": interval.low, "high": interval.high})


def _sides(noun: Noun) -> str:
    return "members from non-members" if noun == RECORD else f"member {noun.many} from the others"


def _not_checked(reason: str) -> Outcome:
    sentence = f"A shift between members and non-members was not searched for: {reason}."
    return Outcome(NAME, "not checked", sentence)


def _sample(n_records: int) -> IntArray:
    if n_records <= _MOST_RECORDS:
        return np.arange(n_records)
    sample = np.random.default_rng(_SEED).choice(n_records, _MOST_RECORDS, replace=False)
    return np.sort(sample)


def _narrow(x: AnyArray) -> AnyArray:
    """Long features, projected on their principal axes, which random directions nearly span (Halko 2011)."""
    n_axes = min(_MOST_FEATURES, len(x) - 1)
    if x.shape[1] <= _MOST_FEATURES:
        return x
    centred, rng = x - x.mean(axis=0), np.random.default_rng(_SEED)
    axes = rng.normal(size=(x.shape[1], n_axes + _MORE_DIRECTIONS)).astype(x.dtype)
    for _ in range(_POWER_ITERATIONS):
        axes = np.linalg.qr(centred.T @ np.linalg.qr(centred @ axes)[0])[0]
    principal = np.linalg.svd(centred @ axes, full_matrices=False)[2]
    return np.asarray(centred @ (axes @ principal[:n_axes].T))


def _out_of_fold(task: ShiftTask) -> FloatArray:
    """Scores by forests fitted without the fold of the record's unit, minus the mean of the fold.

    The base rate of the other folds runs against the fold's own; with it, the pooled scores of a useless
    forest would have an AUC below one half.
    """
    folds = _folds(task.members, task.units)
    scores = forest_probabilities(task.features, task.members, folds, _SEED, N_TREES)
    for _, scored in folds:
        scores[scored] -= scores[scored].mean()
    return scores


def _folds(members: BoolArray, units: IntArray) -> list[Fold]:
    """Indices to fit on and to score, by fold; all records of a unit are in one fold.

    Members are dealt out first, so that every fold has its share of them.
    """
    of_units = members[np.unique(units, return_index=True)[1]]
    order = np.random.default_rng(_SEED).permutation(len(of_units))
    fold = np.empty(len(of_units), np.int64)
    fold[order[np.argsort(~of_units[order], kind="stable")]] = np.arange(len(of_units)) % _N_FOLDS
    own = fold[units]
    return [(np.flatnonzero(own != at), np.flatnonzero(own == at)) for at in range(_N_FOLDS)]
