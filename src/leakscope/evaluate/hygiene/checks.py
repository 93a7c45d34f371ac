"""All checks of an audit, in the order a reader wants them."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import IntArray
from leakscope.evaluate.hygiene.accuracy import check_accuracy
from leakscope.evaluate.hygiene.class_balance import check_sides
from leakscope.evaluate.hygiene.duplicates import check_duplicates
from leakscope.evaluate.hygiene.members import EveryModel, check_members
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.hygiene.shift import check_shift
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.types import Design, Signals


def check_all(
    signals: Signals,
    design: Design,
    targets: IntArray,
    facts: RecordMetadata,
    every_model: EveryModel | None,
) -> tuple[Outcome, ...]:
    """Every check.

    Args:
        signals: the models' answers.
        design: who was in which training set, as stated.
        targets: models that are judged; the first is the one whose members a shift is looked for in.
        facts: what is known of the records.
        every_model: attacked by the others; None: cannot be done.
    """
    in_mask = design.in_mask
    judged = design.rows(targets)
    others = in_mask if len(targets) > 1 else design.rows(np.setdiff1d(np.arange(design.n_models), targets))
    correct = signals.last("correct") if "correct" in signals.arrays else None
    return (
        check_duplicates(facts.duplicate_of, judged),
        check_sides(judged, others),
        check_accuracy(correct, in_mask, targets),
        check_members(every_model, targets),
        check_shift(facts.shift_scores, in_mask[targets[0]]),
    )
