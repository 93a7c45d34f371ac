"""The member lists of reference models: a list that is another model's, or in another order, says nothing.

Nothing in a single reference shows whom it was trained on. But a target and its references follow one recipe,
so each should reveal its own members about as much as the others do theirs. Here a model's score of a record
is its output minus the mean of all models on that record, which takes out how easy the record is. Where the
target's score separates its stated members from the other records and those of the references do not separate
theirs, the lists of the references are wrong, or they were trained in another way. Attacks then learn nothing
from them, and a model that leaks much passes its gate.

The opposite, a target that reveals its stated members less than the references do, is for `members` to test.
"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray
from leakscope.disk.scratch import gather_records
from leakscope.evaluate.hygiene.causes import OF_REFERENCE_MEMBERS
from leakscope.evaluate.hygiene.confidence import Quantity
from leakscope.evaluate.hygiene.outcome import Outcome, Status, UsualSpread, prediction_test
from leakscope.stats.roc import auc_of_split, split_scores

NAME = "reference members"
_LEAST_OTHERS = 3
_WARNS_FROM, _FAILS_FROM = 0.03, 0.05  # above the references, in AUC
_FAILS_FACTOR = 2.0  # a target that leaks this much more than its references
_ALARM = 0.005  # a difference this large is rare between trainings of one recipe, so less evidence will do
_USUAL = UsualSpread(0.02**2, 4)
"""The AUC usually varies by 0.02 between trainings of one recipe."""
_MOST_RECORDS = 20_000
_LARGEST = 50.0  # log-odds beyond this mean certainty


def check_reference_members(
    values: AnyArray | None, in_mask: BoolArray, target: int, quantity: Quantity = "log-odds"
) -> Outcome:
    """Compares how well the target's outputs separate its stated members with how well the references' do.

    Args:
        values: float (models, records), what is compared; None: not known.
        in_mask: bool (models, records), as stated.
        target: index of the target.
        quantity: what the values are, as in `check_confidence`.
    """
    own, others = float("nan"), np.empty(0)
    if values is not None and len(in_mask) > _LEAST_OTHERS:
        aucs = _aucs_of_stated_members(values, in_mask, quantity)
        own, others = float(aucs[target]), np.delete(aucs, target)
        others = others[~np.isnan(others)]
    if np.isnan(own) or len(others) < _LEAST_OTHERS:
        reason = f"it takes {_LEAST_OTHERS} reference models with members and non-members"
        return Outcome(NAME, "not checked", f"The reference models' member lists were not checked: {reason}.")
    test = prediction_test(own, others, _variance_of_auc(in_mask[target]), _USUAL)
    numbers = {"target": own, "references": test.expected, "p_value": test.p_upper}
    gap = own - test.expected
    if test.p_upper >= _ALARM or gap < _WARNS_FROM:
        sentence = "The reference models reveal their stated members as much as the target does."
        return Outcome(NAME, "ok", sentence, numbers)
    sentence = (
        f"The target's outputs distinguish its stated members from other records (AUC {own:.2f}) better than "
        f"the outputs of the reference models distinguish theirs ({test.expected:.2f}). Attacks that use "
        "these references underestimate what the target reveals."
    )
    is_failed = gap >= _FAILS_FROM and own - 0.5 >= _FAILS_FACTOR * (test.expected - 0.5)
    status: Status = "failed" if is_failed else "warning"
    return Outcome(NAME, status, sentence, numbers, OF_REFERENCE_MEMBERS)


def _aucs_of_stated_members(values: AnyArray, in_mask: BoolArray, quantity: Quantity) -> FloatArray:
    """Of each model's output minus the mean over models; float64 (models,), NaN without both sides."""
    n_records = in_mask.shape[1]
    if n_records > _MOST_RECORDS:
        columns = np.sort(np.random.default_rng(0).choice(n_records, _MOST_RECORDS, replace=False))
        values, in_mask = gather_records(values, columns, 1), gather_records(in_mask, columns, 1)
    scores = np.clip(values, -_LARGEST, _LARGEST).astype(np.float64)
    if quantity != "log-odds":  # members have smaller residuals and losses
        scores = -np.abs(scores)
    scores -= scores.mean(axis=0)
    return np.array([
        auc_of_split(split_scores(own, members)) for own, members in zip(scores, in_mask, strict=True)
    ])  # fmt: skip


def _variance_of_auc(is_member: BoolArray) -> float:
    """Where nothing leaks (Mann and Whitney 1947), and records are not a sample."""
    n_members = min(int(np.count_nonzero(is_member)), _MOST_RECORDS)
    n_others = min(len(is_member) - n_members, _MOST_RECORDS)
    return (n_members + n_others + 1) / (12 * n_members * n_others)
