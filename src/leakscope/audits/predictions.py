"""Saved predictions: the outputs of one model, and possibly of reference models, without any training.

With membership alone, attacks that need no reference model are run, and intervals are over records. With the
outputs of reference models, the target is row 0 of a bank and the references are its other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.attacks.base import Attack, Audit, References, check_checkpoints
from leakscope.attacks.registry import default_attacks
from leakscope.audits.population import evaluation_config, stored_signals
from leakscope.audits.rows import models_per_block, signals_of, write_rows
from leakscope.audits.settings import DEFAULT_FPR_BUDGETS, JUDGING, STORED, UNITS, ResolvedSettings
from leakscope.audits.source import Evidence, PreparedAudit, Progress
from leakscope.audits.units import (
    Rows,
    check_members,
    first_of_units,
    rows_that_belong_together,
    unit_facts,
    units_of,
)
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.run_folder import to_jsonable
from leakscope.code_identity.walk import code_identity
from leakscope.data.prediction_roles import BY_NAME, PredictionColumns
from leakscope.data.predictions import Predictions, read_predictions
from leakscope.disk.scratch import Scratch, gather_records
from leakscope.dp.coins import check_references
from leakscope.errors import InputError
from leakscope.evaluate.config import ROWS_TOGETHER, Source
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.signals.registry import Task, of_outputs, own_functions, task_of
from leakscope.types import Design, digest_arrays

_AUDIT: dict[References, Audit] = {"none": "alone", "out": "out_references", "both": "references"}


@dataclass(frozen=True, eq=False)
class SavedPredictions:
    """Predictions that were saved earlier.

    Attributes:
        given: the predictions, or an npz, csv or parquet file with them (`leakscope.data.predictions`). They
            must say who is a member.
        columns: which columns of a csv or parquet file hold what; by default they are recognized by name.
    """

    given: Predictions | Path | str
    columns: PredictionColumns = BY_NAME

    uses: ClassVar[frozenset[str]] = JUDGING | STORED | UNITS
    default_fpr_budgets: ClassVar[tuple[float, ...]] = DEFAULT_FPR_BUDGETS

    @cached_property
    def predictions(self) -> Predictions:
        """The predictions, read once."""
        if isinstance(self.given, Predictions):
            return self.given
        if not isinstance(self.given, Path | str):
            raise InputError(
                f"SavedPredictions of {type(self.given).__name__}: give an npz, csv or parquet file, or "
                "leakscope.data.predictions.Predictions"
            )
        return read_predictions(self.given, "required", self.columns)

    @property
    def task(self) -> Task:
        """Of the labels."""
        return task_of(self.predictions.labels)

    @property
    def references(self) -> References:
        """The reference models whose outputs were saved."""
        in_mask = self.predictions.reference_in_mask
        if in_mask is None:
            return "none"
        return "both" if in_mask.any() else "out"

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks these predictions allow."""
        return default_attacks(_AUDIT[self.references], self.task)

    def warnings(self, unit: str | None) -> list[str]:
        """Columns that say whose record it is, where every row counts as a record of its own."""
        members = self.predictions.is_member
        if unit is not None or members is None:
            return []
        together = rows_that_belong_together(_rows(self.predictions).groups, members)
        return [
            f"all rows with the same {name!r} are members, or none is; if they belong together, intervals "
            f"over rows are too narrow: set unit = {name!r} (--unit {name})"
            for name in together
        ]

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks that members and non-members are named, and that the attacks have their references."""
        predictions, members = self.predictions, self._members()
        self._check_references(settings.attacks)
        check_checkpoints(
            settings.attacks, 1, "saved predictions have one checkpoint; audit a population instead"
        )
        of_references = predictions.reference_in_mask
        if settings.claim is not None and of_references is not None:
            check_references(of_references, members)
        units = units_of(_rows(predictions), settings.unit)
        for row in (members, *(() if of_references is None else of_references)):
            check_members(row, units, settings.unit)
        facts = self._facts(settings.unit) | unit_facts(settings.unit, Design(members[None], units=units))
        source = Source("predictions", facts, settings.config_text)
        config = evaluation_config(predictions.name, settings, source, (0,))
        names = stored_signals(settings, self.task)
        self._refuse_queries(settings.attacks)

        def collect(folder: Path, _progress: Progress) -> Evidence:
            bank = _write_bank(folder, predictions, units, names, settings.reuse)
            return Evidence(bank, _metadata(predictions, members, units), config)

        of_units = members[first_of_units(_rows(predictions), settings.unit)]
        return PreparedAudit(config, of_units[None], 1 + self._n_references, collect)

    @property
    def _n_references(self) -> int:
        logits = self.predictions.reference_logits
        return 0 if logits is None else len(logits)

    def _members(self) -> BoolArray:
        members = self.predictions.is_member
        if members is None or members.all() or not members.any():
            raise InputError(
                f"{self.predictions.name}: is_member must name members and non-members; without both nothing "
                "can be measured"
            )
        return members

    def _check_references(self, attacks: Sequence[Attack]) -> None:
        lacking = [attack.label for attack in attacks if attack.references != "none"]
        if lacking and self.references == "none":
            alone = ", ".join(attack.name for attack in default_attacks("alone", self.task))
            raise InputError(
                f"attacks={lacking}: need the outputs of reference models; add "
                f"reference_{self.predictions.kind} and reference_members, or choose from {alone}"
            )

    def _refuse_queries(self, attacks: Sequence[Attack]) -> None:
        refused = [a.label for a in attacks if of_outputs(a.reads(self.task)) != a.reads(self.task)]
        if refused:
            raise InputError(
                f"attacks={refused}: each queries the model again, which saved predictions do not allow; "
                "remove them, or audit the model itself"
            )

    def _facts(self, unit: str | None) -> dict[str, str]:
        """What the report says about the predictions, and about rows that may belong together."""
        kind, n_references = f"saved {self.predictions.kind} of one model", self._n_references
        facts = {"outputs": f"{kind} and {n_references} reference models" if n_references else kind}
        if isinstance(self.given, Path | str):
            facts["file"] = Path(self.given).name
            facts |= {"columns": self.predictions.reading} if self.predictions.reading else {}
            facts |= {f"--{name}": _listed(value) for name, value in self.columns.given.items()}
        warnings = self.warnings(unit)
        return facts | ({ROWS_TOGETHER: "; ".join(warnings)} if warnings else {})


def _rows(predictions: Predictions) -> Rows:
    """With all columns that may say whose record it is."""
    return Rows(predictions.ids, predictions.name, {**predictions.repeated, **predictions.groups})


def _listed(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _write_bank(
    folder: Path, predictions: Predictions, units: IntArray | None, names: tuple[str, ...], reuse: bool
) -> Bank:
    """The predictions as a bank: the target first, then the references."""
    scratch, references = Scratch(folder), predictions.reference_logits
    design = _design(predictions, units, scratch)

    def row(model: int) -> dict[str, AnyArray]:
        logits = predictions.logits if model == 0 or references is None else references[model - 1]
        return signals_of(logits, predictions.labels, names, scratch)

    identity, note = _identity(predictions, design, names), "saved predictions; nothing was trained"
    return write_rows(folder, identity, design, predictions.labels, row, note, reuse)


def _design(predictions: Predictions, units: IntArray | None, scratch: Scratch) -> Design:
    references = predictions.reference_in_mask
    in_mask = scratch.empty((1 if references is None else 1 + len(references), len(predictions)), np.bool_)
    in_mask[0] = predictions.is_member
    for row, members in zip(in_mask[1:], () if references is None else references, strict=True):
        row[:] = members
    return Design(in_mask, units=units)


def _identity(predictions: Predictions, design: Design, names: tuple[str, ...]) -> Identity:
    references = [] if predictions.reference_logits is None else [predictions.reference_logits]
    records_sha256 = digest_arrays(predictions.ids, predictions.labels)
    return Identity(
        records=RecordsIdentity(predictions.name, len(predictions), records_sha256),
        design=DesignIdentity.of(design),
        recipe={
            "saved": predictions.kind,
            "sha256": digest_arrays(predictions.logits, *references),
            "evaluated_epochs": [1],
            **({"code": to_jsonable(code_identity(**own))} if (own := own_functions(names)) else {}),
        },
        seed=0,
        signals=names,
        block_size=models_per_block(len(predictions)),
    )


def _metadata(predictions: Predictions, is_member: BoolArray, units: IntArray | None) -> RecordMetadata:
    from leakscope.evaluate.hygiene.shift import ShiftScores, search_for_shift

    labels: AnyArray = predictions.labels
    if predictions.class_names:
        labels = np.array(predictions.class_names, dtype=np.str_)[labels]
    elif predictions.is_classification:
        labels = labels.astype(f"U{len(str(predictions.n_classes))}")
    search = search_for_shift(partial(_features_of, predictions), is_member, units=units)
    return RecordMetadata(predictions.ids, labels, predictions.groups, shift=ShiftScores(search.scores))


def _features_of(predictions: Predictions, records: IntArray) -> AnyArray:
    """What is known of records without the target: class, groups, mean outputs of OUT models."""
    columns = [predictions.labels[records], *(values[records] for values in predictions.groups.values())]
    features = [np.unique(column, return_inverse=True)[1].reshape(-1, 1) for column in columns]
    if predictions.reference_logits is not None and predictions.reference_in_mask is not None:
        logits = gather_records(predictions.reference_logits, records, 1)
        in_mask = gather_records(predictions.reference_in_mask, records, 1)
        if not in_mask.all(axis=0).any():
            n_out = (~in_mask).sum(axis=0)
            features.append(np.where(in_mask[..., None], 0, logits).sum(axis=0) / n_out[:, None])
    return np.concatenate(features, axis=1)
