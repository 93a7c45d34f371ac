"""A model's outputs as the user saved them: one row of logits or probabilities per record.

Whoever cannot hand out the model or its training data can still hand out predictions. Nothing is ever
unpickled: a pickle can run code when it is read. Probabilities become log-probabilities, floored so that
a float32 probability of exactly 0 or 1 stays finite; a softmax of them gives the probabilities back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.data.columns import numeric_features, refuse_where, require_names, unique_ids
from leakscope.data.npz_file import as_vector, check_lengths, read_arrays
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.storage import user_file
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError, did_you_mean
from leakscope.signals.probabilities import floor_of, floored_log, smallest_positive
from leakscope.types import regression_label_problems

if TYPE_CHECKING:
    from leakscope.data.prediction_roles import PredictionColumns

Kind = Literal["logits", "probabilities", "outputs"]
"""Outputs are the numbers that a regression model predicts."""
Membership = Literal["required", "optional"]

SUFFIXES = (".npz", ".csv", ".parquet")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib")
_MEMBER_NAMES = ("is_member", "members")
_KINDS: tuple[Kind, ...] = ("logits", "probabilities", "outputs")
_REFERENCE_NAMES = ("reference_logits", "reference_probabilities", "reference_outputs", "reference_members")
_SUM_TOLERANCE = 1e-3
_MOST_ROUNDING = 0.1
_TRUE = ("true", "1", "1.0", "yes", "y", "t", "member", "in", "train", "training")
_FALSE = ("false", "0", "0.0", "no", "n", "f", "non-member", "nonmember", "out", "test", "testing", "val",
          "valid", "validation", "holdout")  # fmt: skip

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Predictions:
    """One model's outputs for each record.

    Attributes:
        logits: float32 (records, classes); log-probabilities where `kind` is "probabilities", one column of
            numbers where it is "outputs".
        labels: int64 (records,), the true classes; float32 of a regression.
        ids: str (records,), unique.
        is_member: bool (records,), which records it was trained on; None: unknown.
        groups: column name -> str (records,), for risk by group.
        name: short name, the file's without its extension.
        kind: what was given; true and largest logits of "probabilities" are log-probabilities.
        reference_logits: float32 (references, records, classes), other models' outputs for the same records.
        reference_in_mask: bool (references, records), whom each of those was trained on.
        class_names: what class 0, 1, ... is called; empty: the classes are only numbered.
        reading: how the columns of a file were read, as a sentence; empty where there are none.
        repeated: column name -> str (records,), columns with too many values for groups, some of which
            repeat: they may say whose record it is.
    """

    logits: Float32Array
    labels: AnyArray
    ids: npt.NDArray[np.str_]
    is_member: BoolArray | None = None
    groups: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    name: str = "predictions"
    kind: Kind = "logits"
    reference_logits: Float32Array | None = None
    reference_in_mask: BoolArray | None = None
    class_names: tuple[str, ...] = ()
    reading: str = ""
    repeated: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_shapes(self)
        if self.is_classification:
            _check_labels(self.labels, self.n_classes)
        elif self.labels.dtype != np.float32 or self.n_classes != 1:
            raise InputError(
                f"outputs of shape {self.logits.shape} and labels of type {self.labels.dtype}: a regression "
                "has one output per record, and float32 labels"
            )
        for what, logits in (("logits", self.logits), ("reference logits", self.reference_logits)):
            if logits is not None and not _are_finite(logits):
                raise InputError(f"{what} hold NaN or infinite values; drop or fill those records first")
        problems = [] if self.is_classification else regression_label_problems(self.labels)
        if problems:
            raise InputError("; ".join(problems))
        unique_ids(self.ids, "ids")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_classification(self) -> bool:
        """False for the outputs of a regression model."""
        return self.kind != "outputs"

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 (one output) of a regression."""
        return int(self.logits.shape[-1])


def read_predictions(
    path: Path | str, membership: Membership = "optional", columns: PredictionColumns | None = None
) -> Predictions:
    """The predictions of one file, read by its extension; docs/predictions.md describes the format.

    What is large of a csv or parquet file stays on disk.

    Args:
        path: npz, csv or parquet.
        membership: "required" refuses a file that does not say who was trained on, or has one side only.
        columns: which columns of a csv or parquet file hold what; None: they are recognized by their names.

    Raises:
        InputError: names the file, the value and the remedy.
    """
    from leakscope.data.prediction_columns import read_prediction_columns
    from leakscope.data.prediction_roles import BY_NAME

    columns = columns or BY_NAME
    if Path(path).suffix.lower() in PICKLES:
        raise InputError(
            f"{path}: {Path(path).suffix} is a pickle, which can run code when read, so it is refused; "
            "save predictions with numpy.savez or as csv or parquet"
        )
    path = user_file(path, SUFFIXES)
    try:
        if path.suffix.lower() != ".npz":
            predictions = read_prediction_columns(path, columns)
        elif columns.given:
            raise InputError(
                f"{', '.join(columns.given)} would do nothing: an npz file has arrays, not columns"
            )
        else:
            predictions = _read_npz(path)
        if membership == "required":
            _require_both_sides(predictions)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return predictions


def _are_finite(logits: Float32Array) -> bool:
    models = logits if logits.ndim == 3 else logits[None]
    return all(np.isfinite(model[rows]).all() for model in models for rows in row_blocks(model))


def checked_log_probabilities(
    probabilities: AnyArray, what: str = "probabilities", out: Float32Array | None = None
) -> Float32Array:
    """Log of each of one model's probabilities (records, classes), zeros raised as `log_probabilities` says.

    `what` names them in an error; `out` is float32 of the same shape to fill, by default a new array.

    Raises:
        InputError: a value is NaN, infinite or outside [0, 1], or a row does not add up to 1.
    """
    step, n_wrong, first = np.inf, 0, ""
    for rows in row_blocks(probabilities):
        exact = probabilities[rows].astype(np.float64)
        refuse_outside(exact, what)
        sums = exact.sum(axis=-1)
        wrong = np.flatnonzero(np.abs(sums - 1) > _SUM_TOLERANCE)
        if len(wrong):
            wrong = wrong[np.abs(sums[wrong] - 1) > _rounding(exact)]
        if len(wrong) and not n_wrong:
            first = f"row-{rows.start + wrong[0]}, {sums[wrong[0]]:.4g}"
        n_wrong += len(wrong)
        step = min(step, smallest_positive(exact))
    if n_wrong:
        raise InputError(f"{what} of {n_wrong:,} rows do not add up to 1 (first: {first}); "
                         "give all classes of a softmax, or raw outputs as logits")  # fmt: skip
    logs = np.empty(probabilities.shape, dtype=np.float32) if out is None else out
    floor = floor_of(step, probabilities.shape[-1])
    for rows in row_blocks(probabilities):
        logs[rows] = floored_log(probabilities[rows], floor)
    return logs


def refuse_outside(probabilities: AnyArray, what: str) -> None:
    """Refuses values that are no probabilities; `what` names them."""
    inside = (probabilities >= -_SUM_TOLERANCE) & (probabilities <= 1 + _SUM_TOLERANCE)  # false for NaN
    if not inside.all():
        raise InputError(f"{what} hold {probabilities[~inside][0]:g}, expected values from 0 to 1; "
                         "divide percent by 100, and save raw outputs as logits")  # fmt: skip


def _rounding(probabilities: AnyArray) -> float:
    """How far the sum of a row may be from 1, where probabilities were rounded to a few digits."""
    for digits in range(1, 4):
        scaled = probabilities * 10**digits
        if np.abs(scaled - np.round(scaled)).max() < 1e-4:
            most = 0.5 * 10**-digits * probabilities.shape[-1]
            return float(max(_SUM_TOLERANCE, min(_MOST_ROUNDING, most + 1e-6)))
    return _SUM_TOLERANCE


def refuse_probabilities(logits: AnyArray, what: str) -> None:
    """Refuses logits that are probabilities: all from 0 to 1, and of several columns adding up to 1."""
    for rows in row_blocks(logits):
        outside = (logits[rows] < 0) | (logits[rows] > 1)
        sums = logits[rows].sum(axis=-1, dtype=np.float64)
        if outside.any() or (logits.shape[-1] > 1 and (np.abs(sums - 1) > _SUM_TOLERANCE).any()):
            return
    raise InputError(f"{what} are probabilities, from 0 to 1; save them as probabilities")


def as_bools(values: AnyArray, what: str) -> BoolArray:
    """Bools, zeros and ones, or texts: true and false, yes and no, member and non-member, train and test."""
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind not in "iufU":
        raise InputError(f"{what} has type {values.dtype}; expected true or false, or 1 or 0")
    texts = np.char.lower(np.char.strip(values.astype(np.str_)))
    is_true = np.isin(texts, _TRUE)
    unknown = ~is_true & ~np.isin(texts, _FALSE)
    if unknown.any():
        first = values[unknown][0]
        raise InputError(
            f"{what} holds {str(first)!r}; expected true or false, yes or no, 1 or 0, or train or test"
        )
    return np.asarray(is_true)


def _read_npz(path: Path) -> Predictions:
    arrays = read_arrays(path)
    given, kind = _given_outputs(arrays, "")
    require_names("label array", ["labels"], list(arrays))
    taken = {given, "labels", "ids", *_REFERENCE_NAMES}
    vectors = {name: _column(name, array) for name, array in arrays.items() if name not in taken}
    labels = as_vector("labels", arrays["labels"])
    ids = as_vector("ids", arrays["ids"]).astype(np.str_) if "ids" in arrays else None
    check_lengths({given: arrays[given], "labels": labels, **vectors})
    reference_logits, reference_in_mask = _references(arrays)
    return Predictions(
        logits=_logits(arrays[given], kind, given),
        labels=true_labels(labels, "labels", kind),
        ids=numbered_ids("row-", len(labels)) if ids is None else ids,
        is_member=_membership(vectors),
        groups={name: v.astype(np.str_) for name, v in vectors.items() if name not in _MEMBER_NAMES},
        name=path.stem,
        kind=kind,
        reference_logits=reference_logits,
        reference_in_mask=reference_in_mask,
    )


def _column(name: str, array: AnyArray) -> AnyArray:
    """Membership or a group; an array of another shape may be one of reference models, named differently."""
    try:
        return as_vector(name, array)
    except InputError as error:
        remedy = did_you_mean(name.replace("shadow", "reference"), _REFERENCE_NAMES, before="; ")
        raise InputError(f"{error}{remedy}") from error


def _given_outputs(arrays: dict[str, AnyArray], prefix: str) -> tuple[str, Kind]:
    """Name of the array that holds the model's outputs, and what they are."""
    kinds = [kind for kind in _KINDS if f"{prefix}{kind}" in arrays]
    if len(kinds) != 1:
        given = " and ".join(f"{prefix}{kind}" for kind in kinds)
        *others, last = (f"{prefix}{kind}" for kind in _KINDS)
        wanted = f"{', '.join(others)} or {last}"
        problem = f"has both {given}" if kinds else f"has no array {wanted}"
        raise InputError(f"{problem}; save exactly one (there are: {', '.join(arrays) or 'none'})")
    return f"{prefix}{kinds[0]}", kinds[0]


def _logits(outputs: AnyArray, kind: Kind, what: str) -> Float32Array:
    if outputs.dtype.kind not in "iuf":
        raise InputError(f"{what} have type {outputs.dtype}, expected numbers")
    if kind == "outputs":
        return numeric_features(_one_column(outputs, what), what, "array")
    if outputs.ndim not in (2, 3) or outputs.shape[-1] < 2 or not outputs.size:
        both = "0 and z" if kind == "logits" else "1 - p and p"
        raise InputError(f"{what} have shape {outputs.shape}, expected (records, classes) of two or more "
                         f"classes; give a binary model both, {both}")  # fmt: skip
    if kind == "logits":
        refuse_probabilities(outputs.reshape(-1, outputs.shape[-1]), what)
        return numeric_features(outputs, what, "array")
    if outputs.ndim == 2:
        return checked_log_probabilities(outputs, what)
    return np.stack([checked_log_probabilities(model, what) for model in outputs])


def _one_column(outputs: AnyArray, what: str) -> AnyArray:
    """Outputs of a regression, (records, 1) or (models, records, 1)."""
    n_axes = 3 if what.startswith("reference_") else 2
    if outputs.ndim == n_axes - 1:
        outputs = outputs[..., None]
    if outputs.ndim != n_axes or outputs.shape[-1] != 1 or not outputs.size:
        wanted = "(models, records)" if n_axes == 3 else "(records,)"
        raise InputError(f"{what} have shape {outputs.shape}, expected {wanted}: one number per record")
    return outputs


def _references(arrays: dict[str, AnyArray]) -> tuple[Float32Array | None, BoolArray | None]:
    if not any(name in arrays for name in _REFERENCE_NAMES):
        return None, None
    given, kind = _given_outputs(arrays, "reference_")
    require_names("array", ["reference_members"], list(arrays))
    return _logits(arrays[given], kind, given), as_bools(arrays["reference_members"], "reference_members")


def _membership(vectors: dict[str, AnyArray]) -> BoolArray | None:
    given = [name for name in _MEMBER_NAMES if name in vectors]
    if len(given) > 1:
        raise InputError(f"has both {' and '.join(given)}; save one array of membership")
    return as_bools(vectors[given[0]], given[0]) if given else None


def true_labels(values: AnyArray, what: str, kind: Kind) -> AnyArray:
    """Labels as class indices, or as float32 numbers beside the outputs of a regression."""
    if kind != "outputs":
        return class_indices(values, what)
    if values.dtype.kind not in "iuf":
        raise InputError(f"{what} must be numbers beside outputs, got {values.dtype}")
    return numeric_features(values, what, "label")


def class_indices(values: AnyArray, what: str) -> IntArray:
    """Labels as int64 class indices; what can be none is refused."""
    is_number = values.dtype.kind in "iuf"
    if not is_number or not np.isfinite(values).all() or (values != np.round(values)).any():
        raise InputError(f"{what} must be class indices 0, 1, ... in the order of the outputs, "
                         f"got {values.dtype} such as {str(values[0])!r}; encode them first")  # fmt: skip
    with np.errstate(over="ignore"):
        exact = values.astype(np.float64)
    # What is too large for an int64 would come out as any class; so it is refused as outside of all.
    return np.where(np.abs(exact) < 2**31, exact, -1).astype(np.int64)


def _require_both_sides(predictions: Predictions) -> None:
    is_member = predictions.is_member
    if is_member is None:
        raise InputError(
            "does not say who is a member; add is_member, true or false for every record, or name the column "
            "with --member"
        )
    if is_member.all() or not is_member.any():
        side = "a member" if is_member.all() else "a non-member"
        raise InputError(f"every record is {side}; give records of both sides")


def _check_shapes(predictions: Predictions) -> None:
    n, shape = len(predictions.labels), predictions.logits.shape
    expected: dict[str, tuple[AnyArray | None, tuple[int, ...]]] = {
        "logits": (predictions.logits, (n, shape[-1])),
        "ids": (predictions.ids, (n,)),
        "is_member": (predictions.is_member, (n,)),
        **{f"group {name}": (values, (n,)) for name, values in predictions.groups.items()},
    }
    references, in_mask = predictions.reference_logits, predictions.reference_in_mask
    if (references is None) != (in_mask is None):
        raise InputError("reference logits and reference members go together; give both or neither")
    if references is not None:
        expected["reference logits"] = (references, (len(references), n, shape[-1]))
        expected["reference members"] = (in_mask, (len(references), n))
    for what, (array, wanted) in expected.items():
        if array is not None and array.shape != wanted:
            shape = ("models", *wanted[1:]) if what.startswith("reference ") else wanted
            needed = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
            raise InputError(f"{what} must have shape {needed} for {n:,} labels, got {array.shape}")


def _check_labels(labels: IntArray, n_classes: int) -> None:
    outside = (labels < 0) | (labels >= n_classes)
    example = f" such as {labels[outside][0]}" if outside.any() else ""
    refuse_where(outside, f"label is outside 0..{n_classes - 1}{example}",
                 f"give class indices in the order of the {n_classes} outputs")  # fmt: skip
