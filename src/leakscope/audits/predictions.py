"""An audit without training: judge the answers of one model that were saved earlier.

    verdict = leakscope.audit_predictions("predictions.npz")

With membership alone, attacks that need no other model are run, and intervals are over records. With
other models' answers about the same records, the target is also judged by them: it is row 0 of a bank,
the others are its references. The run folder is an ordinary one: `verify` recomputes every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.attacks.registry import PER_RECORD, attack_classes
from leakscope.audits.population import (
    DEFAULT_FPR_BUDGETS,
    KIND,
    asked,
    check_questions,
    concluded,
    required_signals,
)
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import Provenance
from leakscope.bank.object_store import working_copy
from leakscope.bank.run_folder import locked_run_folder
from leakscope.data.predictions import Predictions, read_predictions
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.scratch import Scratch, gather_records, over_blocks
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from leakscope.types import Design, Records, digest_arrays

ALONE = ("correctness", "loss", "population")
WITH_REFERENCES = ("lira", "eb_lira")
WITH_OUT_REFERENCES = ("reference", "calibrated")
"""Attacks by what they need: nothing, models that saw a record and that did not, or the latter only."""


def audit_predictions(
    predictions: Predictions | Path | str,
    out: Path | str = "runs/predictions",
    attacks: Sequence[str] | None = None,
    fpr_budgets: Sequence[float] = DEFAULT_FPR_BUDGETS,
    gate: Gate | None = None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    records: Records | None = None,
) -> Verdict:
    """Measures what one model's saved answers give away about its members.

    Args:
        predictions: the answers, or a npz, csv or parquet file with them (`read_predictions`); they must
            say who was a member, and may hold other models' answers.
        out: run folder; the folder of another run is refused.
        attacks: names of attacks; by default those that these predictions allow.
        fpr_budgets: false positive rates at which the true positive rate is reported.
        gate: limits; `Verdict.gate_failed` says whether one was broken.
        disclosure: what report.html may tell about single records.
        records: those of the predictions, in their order, to show previews of; None: features are unknown.
    """
    if not isinstance(predictions, Predictions):
        predictions = read_predictions(predictions, membership="required")
    is_member = _both_sides(predictions)
    names = default_attacks(predictions) if attacks is None else tuple(attacks)
    check_questions(names, fpr_budgets)
    _check_references(names, predictions)
    with working_copy(out) as folder, locked_run_folder(folder, KIND, {}):
        bank = _bank_of(predictions, is_member, names, folder)
        config = {"records": predictions.name, "targets": [0], **asked(names, fpr_budgets, gate)}
        return concluded(bank, config, _facts_of(predictions, is_member), folder, disclosure, records)


def default_attacks(predictions: Predictions) -> tuple[str, ...]:
    """The attacks these predictions allow."""
    references: tuple[str, ...] = ()
    if predictions.shadow_in_mask is not None:
        references = WITH_REFERENCES if predictions.shadow_in_mask.any() else WITH_OUT_REFERENCES
    return tuple(name for name in (*ALONE, *references) if name in attack_classes())


def _both_sides(predictions: Predictions) -> BoolArray:
    is_member = predictions.is_member
    if is_member is None or is_member.all() or not is_member.any():
        raise InputError(
            f"{predictions.name}: is_member must say who was trained on, and name members and others; "
            "without it nothing can be judged"
        )
    return is_member


def _check_references(names: Sequence[str], predictions: Predictions) -> None:
    needing = [name for name in names if name not in ALONE]
    if needing and predictions.shadow_logits is None:
        raise InputError(
            f"attacks={needing}: need other models' answers; add shadow_logits and shadow_members, "
            f"or choose from {', '.join(ALONE)}"
        )


def _bank_of(predictions: Predictions, is_member: BoolArray, names: Sequence[str], folder: Path) -> Bank:
    """The predictions as a bank: the target first, then the other models, each a block."""
    scratch, kept = Scratch(folder), required_signals([*names, PER_RECORD.label], ("correct",))
    design = _design(predictions, is_member, scratch)
    bank = Bank.create(folder, _identity(predictions, design, kept), design, predictions.labels)
    if not bank.is_complete or bank.damage():
        signals = _signals(predictions, design.n_models, kept, scratch)
        for model in range(design.n_models):
            own = {name: values[model : model + 1] for name, values in signals.items()}
            bank.add_block(model, own)
        bank.finish(Provenance(note="saved predictions; nothing was trained"))
    return bank


def _design(predictions: Predictions, is_member: BoolArray, scratch: Scratch) -> Design:
    others = predictions.shadow_in_mask
    n_models = 1 if others is None else 1 + len(others)
    in_mask = scratch.empty((n_models, len(predictions)), np.bool_)
    in_mask[0] = is_member
    for row, saw in zip(in_mask[1:], () if others is None else others, strict=True):
        row[:] = saw
    return Design(in_mask)


def _identity(predictions: Predictions, design: Design, kept: Sequence[str]) -> Identity:
    others = [] if predictions.shadow_logits is None else [predictions.shadow_logits]
    records_sha256 = digest_arrays(predictions.ids, predictions.labels)
    return Identity(
        records=RecordsIdentity(predictions.name, len(predictions), records_sha256),
        design=DesignIdentity.of(design),
        recipe={
            "saved": predictions.kind,
            "sha256": digest_arrays(predictions.logits, *others),
            "evaluated_epochs": [1],
        },
        seed=0,
        signals=tuple(sorted(kept)),
        block_size=1,
    )


def _signals(
    predictions: Predictions, n_models: int, kept: Sequence[str], scratch: Scratch
) -> dict[str, AnyArray]:
    """name -> (models, 1, records[, classes]), block of records by block."""
    import torch

    from leakscope.signals.classification import classification_signals

    def answers(model: int, records: slice) -> dict[str, AnyArray]:
        logits, labels = np.array(_logits(predictions, model)[records]), predictions.labels[records]
        found = classification_signals(
            torch.from_numpy(logits)[None], torch.from_numpy(labels)[None], tuple(sorted(kept))
        )
        return {name: values.numpy()[0] for name, values in found.items()}

    def fill(model: int, records: slice) -> None:
        for name, values in answers(model, records).items():
            signals[name][model, 0, records] = values

    signals = {
        name: scratch.empty((n_models, 1, len(predictions), *first.shape[1:]), first.dtype)
        for name, first in answers(0, slice(0, 1)).items()
    }
    for model in range(n_models):
        over_blocks(len(predictions), partial(fill, model), _logits(predictions, model), *signals.values())
    return signals


def _logits(predictions: Predictions, model: int) -> AnyArray:
    """Of the target (0) or one of the others; (records, classes)."""
    others = predictions.shadow_logits
    return predictions.logits if model == 0 or others is None else others[model - 1]


def _facts_of(predictions: Predictions, is_member: BoolArray) -> RecordMetadata:
    from leakscope.evaluate.hygiene.shift import shift_scores

    labels = predictions.labels.astype(f"U{len(str(predictions.n_classes))}")
    shift = shift_scores(partial(_features_of, predictions), is_member)
    return RecordMetadata(predictions.ids, labels, predictions.groups, shift_scores=shift)


def _features_of(predictions: Predictions, records: IntArray) -> AnyArray:
    """What is known of records without the target: class, groups, what models that never saw them say."""
    columns = [predictions.labels[records], *(values[records] for values in predictions.groups.values())]
    features = [np.unique(column, return_inverse=True)[1].reshape(-1, 1) for column in columns]
    if predictions.shadow_logits is not None and predictions.shadow_in_mask is not None:
        logits, in_mask = (
            gather_records(given, records, 1)
            for given in (predictions.shadow_logits, predictions.shadow_in_mask)
        )
        if not in_mask.all(axis=0).any():
            n_out = (~in_mask).sum(axis=0)
            features.append(np.where(in_mask[..., None], 0, logits).sum(axis=0) / n_out[:, None])
    return np.concatenate(features, axis=1)
