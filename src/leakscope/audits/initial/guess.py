"""What the columns of a table are for, with the reason for each guess."""

from __future__ import annotations

from typing import Literal, NamedTuple

from leakscope.audits.initial.look import FIRST_ROWS, Column, Look, whole_column
from leakscope.audits.units import are_people
from leakscope.data.columns import in_rows, listed, require_names
from leakscope.data.csv_form import naming_lines
from leakscope.data.text_values import CODE
from leakscope.errors import InputError

_LABELS = ("label", "labels", "target", "class", "outcome", "response", "y", "y_true", "diagnosis")
_IDS = ("id", "ids", "uuid", "key", "index", "")
_MOST_CLASSES = 50  # different whole numbers; more are numbers to predict
_ROWS_PER_CLASS = 20
_FEW_VALUES = 20
_SHOWN = 6

Task = Literal["classification", "regression"]


class Guess(NamedTuple):
    """What columns are for, and why; a reason is the end of "NAME is the label because ..."."""

    look: Look
    label: str
    label_reason: str
    id: str | None
    id_reason: str
    task: Task
    task_reason: str
    left_out: tuple[str, ...]
    left_out_reason: str
    unit: str | None

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that remain."""
        taken = (self.label, self.id, self.unit, *self.left_out)
        return tuple(name for name in self.look.names if name not in taken)


def guess(
    look: Look,
    label: str | None = None,
    id_column: str | None = None,
    is_numbered: bool = False,
    unit: str | None = None,
) -> Guess:
    """Label, id, task and features, as given or guessed; `is_numbered`: no column is the id.

    `unit` is the column that says whose record it is; None: every record is its own.

    Raises:
        InputError: no column can be the label or none is left as a feature; names the option that helps.
    """
    for role, given in (("label", label), ("id", id_column), ("unit", unit)):
        require_names(f"{look.path}: {role} column", [] if given is None else [given], look.names)
    if label is not None and label == id_column:
        raise InputError(f"{label!r} cannot be both label and id")
    chosen, label_reason = (label, "it was given") if label is not None else guess_label(look, id_column)
    own_id, id_reason = id_column, "it was given"
    if is_numbered:
        own_id, id_reason = None, "records are numbered by row"
    elif id_column is None:
        own_id, id_reason = guess_id(look, chosen)
    if id_column is not None and whole_column(look.path, id_column).is_duplicated().any():
        raise InputError(f"{look.path}: id column {id_column!r} is not unique; choose another with --id")
    task, task_reason = _task(look, chosen)
    if unit is not None and unit in (chosen, own_id):
        raise InputError(f"{unit!r} cannot be both unit and {'label' if unit == chosen else 'id'}")
    roles = (chosen, own_id, unit)
    out = [c for c in look.columns if c.name not in roles and (c.is_free_text or not c.n_values)]
    why = "which have no values, or more than 256 different text values" if out else ""
    names = tuple(c.name for c in out)
    found = Guess(look, chosen, label_reason, own_id, id_reason, task, task_reason, names, why, unit)
    if not found.features:
        raise InputError(f"{look.path}: no column is left as a feature beside {listed([chosen], _SHOWN)}")
    return found


def guess_label(look: Look, id_column: str | None) -> tuple[str, str]:
    """The column that is probably the label, and why."""
    by_name = {name.strip().lower(): name for name in reversed(look.names) if name != id_column}
    for name in _LABELS:
        if name in by_name:
            return by_name[name], "of its name"
    columns = [c for c in look.columns if c.name != id_column and (c.n_values > 1 or _varies_later(look, c))]
    last = columns[-1] if columns and columns[-1].name == look.names[-1] else None
    if last is not None and not last.is_unique and not last.is_free_text and last.kind != "other":
        return last.name, f"it is the last column and has {last.n_values:,} different values"
    few = [column for column in columns if column.n_values <= _FEW_VALUES and not column.is_unique]
    if len(few) == 1:
        return few[0].name, f"it is the only column with few different values ({few[0].n_values})"
    if last is not None and last.kind == "number":
        return last.name, "it is the last column and holds numbers"
    raise InputError(
        f"{look.path}: no column is clearly the label; name it with --label (there are: {listed(look.names)})"
    )


def _varies_later(look: Look, column: Column) -> bool:
    """Whether a column with one value in the first rows has others: a file may be sorted by its label."""
    is_last = column.name == look.names[-1] and look.n_rows > FIRST_ROWS
    return is_last and whole_column(look.path, column.name).n_unique() > 1


def guess_id(look: Look, label: str) -> tuple[str | None, str]:
    """The column that is probably the id of each record, and why; None where there is none."""
    unique = [c for c in look.columns if c.is_unique and c.can_be_id and c.name != label]
    named = [column for column in unique if _is_named_as_id(column)]
    texts = [column for column in unique if column.kind == "text" and column not in named]
    for column in (*named, *texts):
        if not whole_column(look.path, column.name).is_duplicated().any():
            return column.name, "no value occurs twice"
    return None, "no column has unique values and a name such as 'id'; records are numbered by row"


def guess_unit(look: Look, label: str | None = None, id_column: str | None = None) -> str | None:
    """The column that probably says whose record it is: ids of people with several rows each."""
    n_rows = min(look.n_rows, FIRST_ROWS)
    columns = [c for c in look.columns if c.name not in (label, id_column) and c.kind in ("whole", "text")]
    people = [c.name for c in columns if are_people(c.name, c.n_values, n_rows)]
    return next((name for name in people if not whole_column(look.path, name).null_count()), None)


def _is_named_as_id(column: Column) -> bool:
    name = column.name.strip().lower()
    return name in _IDS or name.endswith(("_id", "-id", " id")) or column.name.endswith("Id")


def _task(look: Look, label: str) -> tuple[Task, str]:
    """Classes or numbers; refuses a label with empty cells, which no model can learn."""
    import polars as pl

    texts = whole_column(look.path, label)
    missing = texts.is_null() | texts.str.strip_chars().str.to_lowercase().is_in(["", "nan", "na", "null"])
    with naming_lines(look.path):
        if missing.any():
            raise InputError(
                f"{look.path}: label {label!r} has no value {in_rows(missing.to_numpy())}; "
                "drop or fill those rows first, or choose another column with --label"
            )
    n_values = texts.n_unique()
    if n_values < 2:
        raise InputError(
            f"{look.path}: all labels in {label!r} are {texts[0]!r}; choose another column with --label"
        )
    numbers = texts.cast(pl.Float64, strict=False)
    shown = listed([str(text) for text in texts.unique(maintain_order=True).head(_SHOWN + 1)], _SHOWN)
    if numbers.null_count() or texts.str.contains(f"^{CODE.pattern}$").any():
        return _classes_of_text(look, label, n_values, shown)
    is_whole = bool((numbers == numbers.round()).all())
    is_many = n_values > _MOST_CLASSES and n_values * _ROWS_PER_CLASS > look.n_rows
    if is_whole and not is_many:
        return "classification", f"{n_values:,} different whole numbers: {shown}"
    kind = "whole numbers" if is_whole else "numbers with fractions"
    return "regression", f"{n_values:,} different {kind}: {shown}"


def _classes_of_text(look: Look, label: str, n_values: int, shown: str) -> tuple[Task, str]:
    if n_values > max(100, look.n_rows // 2):
        raise InputError(
            f"{look.path}: label {label!r} has {n_values:,} different text values in {look.n_rows:,} rows; "
            "choose another column with --label"
        )
    return "classification", f"{n_values:,} classes: {shown}"
