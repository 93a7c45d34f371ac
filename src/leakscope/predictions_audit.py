"""An audit without training: judge the answers of one model that were saved earlier.

    verdict = leakscope.audit_predictions("predictions.npz")

With membership alone, attacks that need no other model are run, and intervals are over records. With
other models' answers about the same records, the target is also judged by them: it is row 0 of a bank,
the others are its references. The run folder is an ordinary one: `verify` recomputes every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from leakscope.attacks.registry import ATTACKS
from leakscope.audit import DEFAULT_FPR_BUDGETS, KIND, asked, check_questions, concluded, kept_signals
from leakscope.bank.bank import Bank
from leakscope.bank.identity import Identity
from leakscope.bank.object_store import working_copy
from leakscope.bank.run_folder import claimed
from leakscope.data.predictions import Predictions, read_predictions
from leakscope.errors import InputError
from leakscope.facts import RecordFacts
from leakscope.gate import Gate
from leakscope.report.html.redaction import DEFAULT_DISCLOSURE, Disclosure
from leakscope.types import AnyArray, BoolArray, Design, Records, digest_arrays
from leakscope.verdict import Verdict

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
    with working_copy(out) as folder, claimed(folder, KIND, {}):
        bank = _bank_of(predictions, is_member, folder)
        config = {"records": predictions.name, "targets": [0], **asked(names, fpr_budgets, gate)}
        return concluded(bank, config, _facts_of(predictions, is_member), folder, disclosure, records)


def default_attacks(predictions: Predictions) -> tuple[str, ...]:
    """The attacks these predictions allow."""
    references: tuple[str, ...] = ()
    if predictions.shadow_in_mask is not None:
        references = WITH_REFERENCES if predictions.shadow_in_mask.any() else WITH_OUT_REFERENCES
    return tuple(name for name in (*ALONE, *references) if name in ATTACKS)


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


def _bank_of(predictions: Predictions, is_member: BoolArray, folder: Path) -> Bank:
    """The predictions as a bank: the target first, then the other models."""
    logits, in_mask = predictions.logits[None], is_member[None]
    if predictions.shadow_logits is not None and predictions.shadow_in_mask is not None:
        logits = np.concatenate([logits, predictions.shadow_logits])
        in_mask = np.concatenate([in_mask, predictions.shadow_in_mask])
    design, kept = Design(in_mask), kept_signals(sorted(ATTACKS), ("correct",))
    bank = Bank.create(folder, _identity(predictions, logits, design, kept), design, predictions.labels)
    if not bank.is_complete or bank.damage():
        bank.add_block(0, _signals(logits, predictions.labels, kept), {"lost_models": {}})
        bank.finish({"note": "saved predictions; nothing was trained"})
    return bank


def _identity(predictions: Predictions, logits: AnyArray, design: Design, kept: Sequence[str]) -> Identity:
    records_sha256 = digest_arrays(predictions.ids, predictions.labels)
    return Identity(
        records={"name": predictions.name, "records": len(predictions), "sha256": records_sha256},
        design={"models": design.n_models, "columns": design.n_columns, "sha256": design.digest},
        recipe={"saved": predictions.kind, "sha256": digest_arrays(logits), "evaluated_epochs": [1]},
        seed=0,
        signals=sorted(kept),
        block_size=design.n_models,
    )


def _signals(logits: AnyArray, labels: AnyArray, kept: Sequence[str]) -> dict[str, AnyArray]:
    """name -> (models, 1, records[, classes])."""
    import torch

    from leakscope.signals import classification_signals

    asked_labels = torch.from_numpy(np.broadcast_to(labels, logits.shape[:2]).copy())
    signals = classification_signals(torch.from_numpy(logits), asked_labels, tuple(sorted(kept)))
    return {name: values.numpy()[:, None] for name, values in signals.items()}


def _facts_of(predictions: Predictions, is_member: BoolArray) -> RecordFacts:
    from leakscope.hygiene.shift import shift_scores

    labels = predictions.labels.astype(str)
    told_apart = shift_scores(_features_of(predictions), is_member)
    return RecordFacts(predictions.ids, labels, predictions.groups, shift_scores=told_apart)


def _features_of(predictions: Predictions) -> AnyArray:
    """What is known of the records without the target: class, groups, what models that never saw them say."""
    columns = [predictions.labels.astype(str), *predictions.groups.values()]
    features = [np.unique(column, return_inverse=True)[1].reshape(-1, 1) for column in columns]
    logits, in_mask = predictions.shadow_logits, predictions.shadow_in_mask
    if logits is not None and in_mask is not None and not in_mask.all(axis=0).any():
        n_out = (~in_mask).sum(axis=0)
        features.append(np.where(in_mask[..., None], 0, logits).sum(axis=0) / n_out[:, None])
    return np.concatenate(features, axis=1)
