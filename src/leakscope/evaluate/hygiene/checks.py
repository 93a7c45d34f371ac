"""Runs all checks of an audit, in the order a reader wants them."""

from __future__ import annotations

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.evaluate.config import SourceKind
from leakscope.evaluate.hygiene.accuracy import check_accuracy
from leakscope.evaluate.hygiene.balance import check_balance
from leakscope.evaluate.hygiene.causes import likely_in
from leakscope.evaluate.hygiene.confidence import Quantity, check_confidence
from leakscope.evaluate.hygiene.duplicates import check_duplicates
from leakscope.evaluate.hygiene.errors import check_errors
from leakscope.evaluate.hygiene.members import AttackedModels, check_members
from leakscope.evaluate.hygiene.models import check_models
from leakscope.evaluate.hygiene.near_copies import check_near_copies
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.hygiene.reference_members import check_reference_members
from leakscope.evaluate.hygiene.references import check_overlap, check_size
from leakscope.evaluate.hygiene.shift import check_shift
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.signals.registry import CLASSIFICATION, LANGUAGE, REGRESSION, Task, task_of
from leakscope.types import Design, Signals

_COMPARED: dict[Task, tuple[str, Quantity]] = {
    CLASSIFICATION: ("log_odds", "log-odds"),
    REGRESSION: ("scaled_residual", "residuals"),
    LANGUAGE: ("loss", "loss"),
}
"""The signal in which a target and its references are compared."""


def check_all(
    signals: Signals,
    design: Design,
    targets: IntArray,
    metadata: RecordMetadata,
    to_compare: AttackedModels | None,
    noun: Noun = RECORD,
    kind: SourceKind = "given model",
) -> tuple[Outcome, ...]:
    """Every check.

    Args:
        signals: the models' outputs.
        design: who was in which training set, as stated.
        targets: the models that are attacked; the shift check looks at the members of the first.
        metadata: what is known of the records.
        to_compare: scores of the targets and of other models; None: there are too few models.
        noun: what members are.
        kind: what is audited; the likely causes of a failed check depend on it.
    """
    in_mask, of_units = design.in_mask, design.of_units
    references = np.setdiff1d(np.arange(design.n_models), targets)
    reference_mask = of_units.in_mask if len(targets) > 1 else of_units.rows(references)
    checks = (
        check_duplicates(metadata.duplicate_of, design.rows(targets)),
        *_checks_of_documents(metadata, design, targets),
        check_balance(of_units.rows(targets), reference_mask, noun),
        check_models(design.n_models, len(targets)),
        *_checks_of_references(signals, design, targets),
        _check_fit(signals, in_mask, targets),
        check_members(to_compare, targets),
        check_shift(
            metadata.shift_scores,
            in_mask[targets[0]],
            design.units,
            noun,
            of_words=metadata.near_copies is not None,
        ),
    )
    is_text = task_of(signals.labels, signals.arrays) == LANGUAGE
    return tuple(likely_in(check, kind, is_text) for check in checks)


def _checks_of_documents(metadata: RecordMetadata, design: Design, targets: IntArray) -> tuple[Outcome, ...]:
    if metadata.near_copies is None:
        return ()
    return (check_near_copies(metadata.near_copies, design.rows(targets)),)


def _checks_of_references(signals: Signals, design: Design, targets: IntArray) -> tuple[Outcome, ...]:
    """Do the references of one target match its design? In a population, all models have the same."""
    if len(targets) > 1 or design.n_models < 2:
        return ()
    (target,) = targets.tolist()
    signal, quantity = _COMPARED[task_of(signals.labels, signals.arrays)]
    return (
        check_overlap(design.of_units.in_mask, target),
        check_size(design.in_mask, target),
        check_confidence(_last(signals, signal), design.in_mask, target, quantity),
        check_reference_members(_last(signals, signal), design.in_mask, target, quantity),
    )


def _check_fit(signals: Signals, in_mask: BoolArray, targets: IntArray) -> Outcome:
    """Are the targets as accurate as they should be?"""
    if task_of(signals.labels) != REGRESSION:
        return check_accuracy(_last(signals, "correct"), in_mask, targets, _labels(signals))
    return check_errors(_last(signals, "loss"), in_mask, targets, signals.labels)


def _last(signals: Signals, name: str) -> AnyArray | None:
    """A signal at the last checkpoint; None where the bank does not store it."""
    return signals.last(name) if name in signals.arrays else None


def _labels(signals: Signals) -> AnyArray | None:
    """Labels of the records, where there are any that all models share."""
    has_labels = task_of(signals.labels, signals.arrays) != LANGUAGE
    return signals.labels if has_labels and signals.labels.ndim == 1 else None
