"""Which columns of a table of predictions are which: recognized by their names, or as the user says.

docs/predictions.md describes the format. Only names are looked at here, no values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from leakscope.data.columns import listed, require_names
from leakscope.data.predictions import Kind
from leakscope.errors import InputError

LABELS = ("label", "labels", "y_true", "y", "true_label", "true_class", "target", "class", "actual", "truth")
IDS = ("id", "ids", "record_id", "record", "row_id", "index", "")
"""The last is how pandas writes an index without a name."""
MEMBERS = ("is_member", "member", "members", "membership", "in_train", "is_train", "in_training", "train",
           "split")  # fmt: skip
MODELS = ("model", "model_id", "model_name")
_STEMS: tuple[tuple[str, Kind], ...] = (
    ("prob", "probabilities"),
    ("logit", "logits"),
    ("proba", "probabilities"),
    ("probability", "probabilities"),
    ("p", "probabilities"),
    ("logits", "logits"),
)
_NUMBERS = ("output", "y_pred", "prediction", "predicted", "pred")
_CANONICAL = ("prob", "logit", "output")
_REFERENCE = re.compile(r"reference_(\d{1,6})_(.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class PredictionColumns:
    """Which columns of a csv or parquet file hold what; by default they are recognized by their names.

    Attributes:
        label: column of the true classes (of a regression: of the true numbers); by default `label`,
            `y_true`, `y`, `target`, ...
        id: column of record ids; by default `id`, `record_id`, ..., else records are numbered.
        member: column that says who is a member; by default `is_member`, `member`, `train`, `split`, ...
        prob: columns of probabilities, one per class, or the only one of a binary classifier; by default
            `prob_CLASS`, `proba_CLASS` or `p_CLASS`, `prob`, or columns named after the classes.
        logit: columns of logits, likewise; by default `logit_CLASS` or `logit`.
        prediction: column of predicted numbers, of a regression; by default `output`, `y_pred`, ...
        classes: the classes of the columns of probabilities or logits, in the order of the columns; by
            default as the columns are named, else in the order of the labels, as scikit-learn orders them.
        model_column: column that names the model of each row, in a file with one row per model and record; by
            default `model`, where ids repeat.
        target: the audited model in that column; the others are reference models. By default "target".
    """

    label: str | None = None
    id: str | None = None
    member: str | None = None
    prob: tuple[str, ...] = ()
    logit: tuple[str, ...] = ()
    prediction: str | None = None
    classes: tuple[str, ...] = ()
    model_column: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        kinds = [name for name in ("prob", "logit", "prediction") if getattr(self, name)]
        if len(kinds) > 1:
            raise InputError(f"{' and '.join(kinds)} exclude each other; name the columns of one kind")
        if self.prediction and self.classes:
            raise InputError("classes would do nothing: prediction names the numbers of a regression")

    @property
    def given(self) -> dict[str, str | tuple[str, ...]]:
        """The settings that name something."""
        return {name: value for name, value in vars(self).items() if value and name in _COLUMN_SETTINGS}


_COLUMN_SETTINGS = frozenset(PredictionColumns.__dataclass_fields__)
BY_NAME = PredictionColumns()
"""Every column is recognized by its name."""


class ModelColumns(NamedTuple):
    """One model's columns of outputs.

    Attributes:
        names: the columns.
        kind: what they hold.
        classes: the class of each column, by its name; empty where the name says nothing.
        is_numbered: whether the classes are the numbers 0, 1, ... of the outputs.
        is_sure: false where the column could hold something else than the kind says.
    """

    names: tuple[str, ...]
    kind: Kind
    classes: tuple[str, ...] = ()
    is_numbered: bool = False
    is_sure: bool = True


class TableRoles(NamedTuple):
    """Which column holds what; None: there is no such column."""

    label: str
    id: str | None
    member: str | None


def table_roles(names: Sequence[str], given: PredictionColumns) -> TableRoles:
    """Label, id and membership, as given or by their names.

    Raises:
        InputError: a column that is named does not exist, or no column is a label.
    """
    label = _role(names, given.label, LABELS, "label")
    if label is None:
        raise InputError(
            f"has no column label; name the column of true classes with --label (there are: {listed(names)})"
        )
    return TableRoles(label, _role(names, given.id, IDS, "id"), _role(names, given.member, MEMBERS, "member"))


def model_column(names: Sequence[str], given: PredictionColumns) -> str | None:
    """The column that may name the model of each row."""
    return _role(names, given.model_column, MODELS, "model")


def _role(names: Sequence[str], given: str | None, known: Sequence[str], role: str) -> str | None:
    """The column that is given, or the first whose name is known; upper and lower case are the same."""
    if given is not None:
        require_names(f"{role} column", [given], names)
        return given
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


def reference_numbers(names: Sequence[str]) -> list[int]:
    """Numbers of the reference models in a file with one row per record; they start at 0."""
    numbers = {int(match[1]) for match in map(_REFERENCE.fullmatch, names) if match}
    missing = set(range(len(numbers))) - numbers
    if missing:
        raise InputError(
            f"has no columns of reference_{min(missing)}; number the reference models from 0 without gaps"
        )
    return sorted(numbers)


def target_columns(
    names: Sequence[str], taken: Collection[str | None], given: PredictionColumns
) -> ModelColumns | None:
    """The outputs of the target, as given or by their names; None where no name is known."""
    own = [name for name in names if name not in taken and not _REFERENCE.fullmatch(name)]
    kind: Kind = "logits" if given.logit else "probabilities"
    if given.prediction is not None:
        require_names("prediction column", [given.prediction], names)
        return ModelColumns((given.prediction,), "outputs")
    columns = given.prob or given.logit
    if columns:
        require_names("probability column" if given.prob else "logit column", columns, names)
        return ModelColumns(columns, kind, _classes_by_name(columns))
    return _recognized(own)


def reference_columns(names: Sequence[str], number: int, target: ModelColumns) -> ModelColumns:
    """The outputs of one reference model: columns named as the target's, or by the names that are known."""
    prefix = f"reference_{number}_"
    alike = tuple(f"{prefix}{name}" for name in target.names)
    if set(alike) <= set(names):
        return target._replace(names=alike)
    own = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    found = _recognized([name for name in own if name != "member"])
    if found is None:
        raise InputError(
            f"has no column {alike[0]}; give the outputs of reference models the target's column names"
        )
    if (found.kind == "outputs") != (target.kind == "outputs"):
        raise InputError(
            f"reference_{number} has {found.kind}, the model {target.kind}; save the same for all"
        )
    if len(found.names) != len(target.names):
        raise InputError(
            f"reference_{number} has {len(found.names)} classes, the model itself {len(target.names)}; "
            "give the same classes for all"
        )
    if found.classes and target.classes and set(found.classes) == set(target.classes):
        place = [found.classes.index(name) for name in target.classes]
        found = found._replace(names=tuple(found.names[at] for at in place), classes=target.classes)
    elif found.classes != target.classes:
        raise InputError(
            f"reference_{number} has the classes {listed(found.classes)}, the model itself has "
            f"{listed(target.classes)}; use the same column names for all models"
        )
    return found._replace(names=tuple(f"{prefix}{name}" for name in found.names))


def _recognized(names: Sequence[str]) -> ModelColumns | None:
    """The first kind of outputs whose columns are there."""
    found = {stem: columns for stem, kind in _STEMS if (columns := _of_stem(names, stem, kind))}
    number = next((name for known in _NUMBERS for name in names if name.lower() == known), None)
    if number is not None:
        found[number] = ModelColumns((number,), "outputs", is_sure=number.lower() == "output")
    both = [stem for stem in _CANONICAL if stem in found]
    if len(both) > 1:
        shown = " and ".join(f"{stem}_" if stem != "output" else stem for stem in sorted(both))
        raise InputError(f"has both {shown} columns; name those to use with --prob, --logit or --prediction")
    return next(iter(found.values()), None)


def _of_stem(names: Sequence[str], stem: str, kind: Kind) -> ModelColumns | None:
    """Columns like `prob_0`, `prob_yes` or `prob`."""
    classes = {name: name[len(stem) + 1 :] for name in names if name.lower().startswith(f"{stem}_")}
    classes = {name: of for name, of in classes.items() if of}
    if not classes:
        alone = next((name for name in names if name.lower() == stem), None)
        return None if alone is None else ModelColumns((alone,), kind)
    if not all(of.isdecimal() for of in classes.values()):
        return ModelColumns(tuple(classes), kind, tuple(classes.values()))
    ordered = sorted(classes, key=lambda name: int(classes[name]))
    numbers = [int(classes[name]) for name in ordered]
    if len(set(numbers)) < len(numbers):  # 01 and 1 are two classes
        return ModelColumns(tuple(classes), kind, tuple(classes.values()))
    if len(numbers) > 1 and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        gap = min(set(range(numbers[0], numbers[-1])) - set(numbers))
        require_names("output column", [f"{ordered[0][: len(stem)]}_{gap}"], names)
    is_numbered = numbers[0] == 0 or len(numbers) == 1
    return ModelColumns(tuple(ordered), kind, tuple(classes[name] for name in ordered), is_numbered)


def _classes_by_name(columns: Sequence[str]) -> tuple[str, ...]:
    """What columns that the user names are called, without what all of a kind begin with."""
    for stem, kind in _STEMS:
        named = _of_stem(columns, stem, kind)
        if named is not None and len(named.names) == len(columns) and named.classes:
            of = dict(zip(named.names, named.classes, strict=True))
            return tuple(of[name] for name in columns)
    return tuple(columns)
