"""The member list: stated members that the model was not trained on look like non-members.

Every model of a population can be attacked with the others. If the score r of an attack is a log likelihood
ratio, tanh(r / 2) in (-1, 1) is its belief that a record is a member. A model's *recognition* is the mean
belief for its stated members minus that for all other records. Unlike an AUC it gives no weight to the many
records that no attack can decide, which halves its noise. If a share w of the stated members was not in the
training set (a hidden validation split, the list of another run), recognition drops to `(1 - w)` of its value
for the other models.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.disk.scratch import over_blocks
from leakscope.evaluate.hygiene.causes import OF_MEMBERS, SWAPPED_MEMBERS
from leakscope.evaluate.hygiene.outcome import ALARM, Outcome, Status, prediction_test

NAME = "members"
_LEAST_OTHERS, _MOST_OTHERS = 3, 31
_WARNS_FROM, _FAILS_FROM = 0.1, 0.25
_REVERSED = -0.5
"""Recognition relative to that of the other models, below which the stated non-members are the members."""


class AttackedModels(NamedTuple):
    """Log ratios of models attacked with all others, for all records or a random sample.

    Attributes:
        models: int64 (attacked,), ascending: the targets, and others to compare them with.
        scores: float64 (attacked, records).
        in_mask: bool (attacked, records), as stated.
    """

    models: IntArray
    scores: FloatArray
    in_mask: BoolArray


def models_to_check(targets: IntArray, n_models: int) -> IntArray:
    """The targets, and up to 31 others. With 63, the smallest share of wrong members seen is 6% lower."""
    others = np.setdiff1d(np.arange(n_models), targets)
    chosen = np.linspace(0, len(others) - 1, min(len(others), _MOST_OTHERS)).round().astype(np.int64)
    return np.union1d(targets, others[chosen])


def check_members(attacked: AttackedModels | None, targets: IntArray) -> Outcome:
    """Tests whether a target's stated members are recognized less than those of the other models.

    Args:
        attacked: scores of the targets and of other models; None: there are too few models.
        targets: indices of the targets.
    """
    by_model, is_target = np.zeros(0), np.zeros(0, dtype=bool)
    if attacked is not None:
        by_model = recognition(attacked.scores, attacked.in_mask)
        is_target = np.isin(attacked.models, targets)
    has_both = ~np.isnan(by_model)
    tested = np.flatnonzero(is_target & has_both)
    if has_both.sum() <= _LEAST_OTHERS or not len(tested):
        reason = f"it takes {_LEAST_OTHERS} other models with members and non-members"
        return Outcome(NAME, "not checked", f"The member list was not checked: {reason}.")
    tests = [_recognition_test(by_model, int(row), len(targets)) for row in tested]
    worst = min(tests, key=lambda test: test.p_value)
    status, sentence = _status_and_sentence(worst)
    causes = _causes(worst) if status in ("failed", "warning") and len(targets) == 1 else ()
    return Outcome(NAME, status, sentence, worst._asdict(), causes)


def recognition(scores: FloatArray, in_mask: BoolArray) -> FloatArray:
    """Mean belief of members minus that of non-members; float64 (models,), in [-2, 2], NaN without both."""

    def totals(columns: slice) -> FloatArray:
        belief, mask = np.tanh(np.clip(scores[:, columns], -50, 50) / 2), in_mask[:, columns]
        members = np.where(mask, belief, 0).sum(axis=1)
        return np.stack([members, belief.sum(axis=1) - members, mask.sum(axis=1)])

    blocks = over_blocks(in_mask.shape[1], totals, scores, in_mask)
    members, others, n_members = np.sum(blocks, axis=0)  # (models,) each
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(members / n_members - others / (in_mask.shape[1] - n_members))


class _RecognitionTest(NamedTuple):
    """One target's recognition against that of the other models.

    Attributes:
        target_recognition: of the target.
        others_recognition: mean of the other models.
        p_value: one-sided, corrected for the number of targets.
        wrong_share: estimated share of wrong members in the list.
        visible_share: the smallest such share that the test detects; 1: none.
    """

    target_recognition: float
    others_recognition: float
    p_value: float
    wrong_share: float
    visible_share: float


def _recognition_test(by_model: FloatArray, target: int, n_targets: int) -> _RecognitionTest:
    others = np.delete(by_model, target)
    others = others[~np.isnan(others)]
    test = prediction_test(float(by_model[target]), others)
    alarm_at = -float(scipy.special.stdtrit(len(others) - 1, ALARM / n_targets))  # standard errors
    wrong = 1 - by_model[target] / test.expected if test.expected > 0 else 0.0
    visible = alarm_at * test.standard_error / test.expected if test.expected > 0 else 1.0
    return _RecognitionTest(
        target_recognition=float(by_model[target]),
        others_recognition=test.expected,
        p_value=min(test.p_lower * n_targets, 1.0),
        wrong_share=float(np.clip(wrong, 0, 1)),
        visible_share=float(min(visible, 1.0)),
    )


def _causes(test: _RecognitionTest) -> tuple[str, ...]:
    is_reversed = test.target_recognition < _REVERSED * test.others_recognition
    return (SWAPPED_MEMBERS, *OF_MEMBERS) if is_reversed else OF_MEMBERS


def _apart(recognition: float) -> str:
    return f"{abs(recognition):.3f} {'lower' if recognition < 0 else 'higher'}"


def _status_and_sentence(test: _RecognitionTest) -> tuple[Status, str]:
    if test.p_value < ALARM and test.wrong_share >= _WARNS_FROM and test.visible_share < 1:
        sentence = (
            f"About {test.wrong_share:.0%} of the stated members of one target look as if it was not trained "
            "on them. On a scale from -1 (surely not a member) to 1 (surely a member), an attack rates them "
            f"{_apart(test.target_recognition)} than the other records on average; the members of the other "
            f"models, {_apart(test.others_recognition)}."
        )
        return ("failed" if test.wrong_share >= _FAILS_FROM else "warning"), sentence
    if test.visible_share >= 1:
        return "not checked", "The member list was not checked: the models leak too little."
    return "ok", (
        "The target's members are recognized as well as those of the other models; more than about "
        f"{test.visible_share:.0%} wrong members in the list would have been detected."
    )
