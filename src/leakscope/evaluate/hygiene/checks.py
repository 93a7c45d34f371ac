"""Runs all checks of an audit, in the order a reader wants them."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, IntArray
from leakscope.evaluate.hygiene.accuracy import check_accuracy
from leakscope.evaluate.hygiene.balance import check_balance
from leakscope.evaluate.hygiene.confidence import check_confidence
from leakscope.evaluate.hygiene.duplicates import check_duplicates
from leakscope.evaluate.hygiene.members import EveryModel, check_members
from leakscope.evaluate.hygiene.models import check_models
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.hygiene.references import check_overlap, check_size
from leakscope.evaluate.hygiene.shift import check_shift
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.types import Design, Signals


def check_all(
    signals: Signals,
    design: Design,
    targets: IntArray,
    metadata: RecordMetadata,
    every_model: EveryModel | None,
) -> tuple[Outcome, ...]:
    """Every check.

    Args:
        signals: the models' outputs.
        design: who was in which training set, as stated.
        targets: the models that are attacked; the shift check looks at the members of the first.
        metadata: what is known of the records.
        every_model: scores of every model attacked with the others; None: there are too few models.
    """
    in_mask = design.in_mask
    target_mask = design.rows(targets)
    references = np.setdiff1d(np.arange(design.n_models), targets)
    reference_mask = in_mask if len(targets) > 1 else design.rows(references)
    correct = signals.last("correct") if "correct" in signals.arrays else None
    return (
        check_duplicates(metadata.duplicate_of, target_mask),
        check_balance(target_mask, reference_mask),
        check_models(design.n_models, len(targets)),
        *_checks_of_references(signals, design, targets),
        check_accuracy(correct, in_mask, targets, _labels(signals)),
        check_members(every_model, targets),
        check_shift(metadata.shift_scores, in_mask[targets[0]]),
    )


def _checks_of_references(signals: Signals, design: Design, targets: IntArray) -> tuple[Outcome, ...]:
    """Do the references of one target match its design? In a population, all models have the same."""
    if len(targets) > 1 or design.n_models < 2:
        return ()
    (target,) = targets.tolist()
    return (
        check_overlap(design.in_mask, target),
        check_size(design.in_mask, target),
        check_confidence(
            signals.last("log_odds") if "log_odds" in signals.arrays else None, design.in_mask, target
        ),
    )


def _labels(signals: Signals) -> AnyArray | None:
    """Labels of the records, where all models share them."""
    return signals.labels if signals.labels.ndim == 1 else None
