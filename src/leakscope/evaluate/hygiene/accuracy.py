"""Accuracy: reference models that are far more or less accurate than the target are poor references.

A target without reference models is compared with guessing: outputs that know less about its own members were
not computed from the features it was trained on. A target with reference models must at least not be worse
than chance, and its outputs must have to do with the labels: where labels or classes were swapped, or outputs
saved in another order than labels, all models are equally wrong.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.evaluate.hygiene.causes import OF_OUTPUTS, OF_REFERENCES, SHUFFLED, SWAPPED
from leakscope.evaluate.hygiene.outcome import ALARM, Outcome, Status, prediction_test
from leakscope.stats.rates import rates_by_model

NAME = "accuracy"
_LEAST_OTHERS = 3
_WARNS_FROM, _FAILS_FROM = 0.02, 0.05
_GROSS, _STANDARD_ERRORS, _RANGES = 0.1, 5, 3
"""A gap as large as this is no chance, even where references are too few for a test."""
_FEWEST_MEMBERS = 100
"""Of fewer, the outputs of a poor model cannot be distinguished from unrelated ones."""
_NEARLY_EQUAL = 1.5  # the most frequent class, relative to equal frequencies


def check_accuracy(
    correct: AnyArray | None, in_mask: BoolArray, targets: IntArray, labels: AnyArray | None = None
) -> Outcome:
    """Compares each target's accuracy with that of the others, and reports the most deviant.

    Args:
        correct: bool (models, records); None: the task has no accuracy.
        in_mask: bool (models, records).
        targets: indices of the targets.
        labels: (records,), for a single target; None: not known.
    """
    if correct is None or (len(in_mask) == 1 and labels is None):
        reason = "the task has none" if correct is None else "there are no other models"
        return Outcome(NAME, "not checked", f"Accuracy was not compared with that of other models: {reason}.")
    if labels is not None and len(targets) == 1:
        members = np.flatnonzero(in_mask[targets[0]])
        of_members = correct[targets[0]][members], labels[members]
        if len(in_mask) == 1:
            return _compared_with_guessing(*of_members)
        if (swapped := _worse_than_chance(*of_members)) is not None:
            return swapped
        guessing = _compared_with_guessing(*of_members)
        is_guess = guessing.status == "failed" and len(members) >= _FEWEST_MEMBERS
        if is_guess and _unrelated_to_labels(correct, in_mask, labels):
            return replace(guessing, causes=(SHUFFLED, *OF_OUTPUTS))
    return _compared_with_others(correct, in_mask, targets)


def _compared_with_others(correct: AnyArray, in_mask: BoolArray, targets: IntArray) -> Outcome:
    """References that are far more or less accurate than a target are poor ones."""
    rates = rates_by_model(correct, in_mask)
    deviations = [
        (*_deviation(rate, n_records, target), side)
        for side, rate, n_records in (
            ("members", rates.members, rates.n_members),
            ("non-members", rates.nonmembers, rates.n_nonmembers),
        )
        for target in targets.tolist()
    ]
    # References that saw none of the records, or all of them, have one side only.
    compared = [deviation for deviation in deviations if not np.isnan(deviation[2])]
    if not compared:
        reason = "they share no side, members or non-members, with a target"
        return Outcome(NAME, "not checked", f"Accuracy was not compared with that of other models: {reason}.")
    p_value, own, others, side = min(compared)
    corrected, gap = min(p_value * len(deviations), 1.0), abs(own - others)
    numbers = {"target": own, "others": others, "p_value": corrected}
    if corrected >= ALARM or gap < _WARNS_FROM or np.isnan(p_value):
        return Outcome(NAME, "ok", "Targets and reference models have similar accuracy.", numbers)
    sentence = (
        f"A target has an accuracy of {own:.1%} on its {side}, and the other models {others:.1%} on theirs. "
        "Attacks that use them as references are not reliable."
    )
    status: Status = "failed" if gap >= _FAILS_FROM else "warning"
    return Outcome(NAME, status, sentence, numbers, OF_REFERENCES if len(targets) == 1 else ())


def _deviation(accuracy: FloatArray, n_records: IntArray, target: int) -> tuple[float, float, float]:
    """Two-sided p-value, the target's accuracy and the others' mean."""
    others = np.delete(accuracy, target)
    others = others[~np.isnan(others)]
    own, n = float(accuracy[target]), int(n_records[target])
    if not len(others) or np.isnan(own):
        return 1.0, own, float("nan")
    shrunk = (others.mean() * n + 1) / (n + 2)
    variance = float(shrunk * (1 - shrunk) / n)
    gap = abs(own - float(others.mean()))
    if gap >= _GROSS and gap > max(_STANDARD_ERRORS * np.sqrt(2 * variance), _RANGES * np.ptp(others)):
        return 0.0, own, float(others.mean())
    if len(others) < _LEAST_OTHERS:
        return 1.0, own, float(others.mean())
    test = prediction_test(own, others, variance)
    return 2 * min(test.p_lower, test.p_upper), own, test.expected


def _worse_than_chance(correct: BoolArray, labels: AnyArray) -> Outcome | None:
    """The alarm if a model is right about its own members less often than a coin or a die would be."""
    n, n_correct, n_classes = len(labels), int(correct.sum()), len(np.unique(labels))
    if n_classes < 2 or scipy.special.bdtr(n_correct, n, 1 / n_classes) >= ALARM:
        return None
    sentence = (
        f"The target has an accuracy of {n_correct / n:.1%} on its own members, worse than a random guess "
        f"among the {n_classes} classes ({1 / n_classes:.1%})."
    )
    numbers = {"target": n_correct / n, "guessing": 1 / n_classes}
    return Outcome(NAME, "failed", sentence, numbers, (SWAPPED, *OF_OUTPUTS))


def _unrelated_to_labels(correct: AnyArray, in_mask: BoolArray, labels: AnyArray) -> bool:
    """Whether the classes that all models name have nothing to do with the labels of their own members.

    Then the shares of right answers by class add up to 1, however often each class is named. Where
    every model names one class for all records, as a model without features does, the order is unknown.
    """
    n_in, n_right = np.zeros(len(labels)), np.zeros(len(labels))
    for right, members in zip(correct, in_mask, strict=True):
        n_in += members
        n_right += right & members
    known = n_in > 0
    share, (_, codes) = n_right[known] / n_in[known], np.unique(labels[known], return_inverse=True)
    counts = np.bincount(codes)
    mean = np.bincount(codes, weights=share) / counts
    variance = np.bincount(codes, weights=(share - mean[codes]) ** 2) / counts
    standard_error = np.sqrt((variance / counts).sum())
    return bool(standard_error > 0 and mean.sum() - 1 <= _STANDARD_ERRORS * standard_error)


def _compared_with_guessing(correct: BoolArray, labels: AnyArray) -> Outcome:
    """A model should know its own members better than whoever always names the most frequent class."""
    counts, n, n_correct = np.unique(labels, return_counts=True)[1], len(labels), int(correct.sum())
    guessing = float(counts.max() / n)
    numbers = {"target": n_correct / n, "guessing": guessing}
    if scipy.special.bdtrc(n_correct - 1, n, guessing) < ALARM or guessing == 1:
        return Outcome(NAME, "ok", "The target is more accurate than guessing on its members.", numbers)
    # A model of a rare class may name the frequent one always, and still be right to do so.
    is_worse = scipy.special.bdtr(n_correct, n, guessing) < ALARM
    is_close = n_correct / n < guessing + _FAILS_FROM and guessing * len(counts) <= _NEARLY_EQUAL
    status: Status = "failed" if is_worse or is_close else "warning"
    always = f"always naming the most frequent class ({guessing:.1%})"
    sentence = f"The target has an accuracy of {n_correct / n:.1%} on its own members, worse than {always}."
    if not is_worse:
        sentence = (
            f"The target has an accuracy of {n_correct / n:.1%} on its own members. With {n:,} of them, that "
            f"cannot be distinguished from {always}."
        )
    is_below_chance = scipy.special.bdtr(n_correct, n, 1 / len(counts)) < ALARM
    causes = (SWAPPED, *OF_OUTPUTS) if is_below_chance else OF_OUTPUTS
    return Outcome(NAME, status, sentence, numbers, causes)
