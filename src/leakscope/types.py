"""The central types of leakscope: frozen dataclasses over arrays.

Axis order is the same everywhere: (models, checkpoints, records). `in_mask[m, i]` is true when
record `i` was in the training set of model `m`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.mmap_rows import row_blocks, take_rows
from leakscope.disk.string_arrays import are_unique
from leakscope.errors import InputError
from leakscope.frames.frame import Frame
from leakscope.frames.reading import TableReading
from leakscope.frames.text import END, Text

PROSE = "prose"
Prose = Annotated[str, PROSE]
"""A text for people. Its wording may change from one version to the next, and is no result."""
DOCUMENT_CLASS = ("document",)
"""Class names of plain text, which has no classes: a language model predicts the next token."""
_SMALLEST_LABEL, _LARGEST_LABEL = 1e-12, 1e15  # of a regression; squares of errors are float32


def digest_arrays(*arrays: AnyArray) -> str:
    """Sha256 over dtype, shape and bytes of the arrays, in order."""
    sha = hashlib.sha256()
    for array in arrays:
        if array.dtype.kind in "OT":
            raise TypeError(f"Expected a plain dtype, got {array.dtype}.")
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        for rows in row_blocks(np.atleast_1d(array)):
            sha.update(np.ascontiguousarray(np.atleast_1d(array)[rows]).data)
    return sha.hexdigest()


@dataclass(frozen=True, eq=False)
class Records:
    """The records of the people whose membership is in question.

    Attributes:
        features: float32 (records, ...), or uint8 (records, channels, height, width) for images; for text
            int32 (records, length), token ids, and -1 behind the end of a document.
        labels: int64 (records,) class indices; float32 for a regression target.
        ids: str (records,), unique and stable: the same record has the same id in every run.
        name: short name of the dataset.
        groups: column name -> str (records,), for risk by group.
        class_names: one per class; empty for a regression target, `("document",)` for plain text.
        feature_names: one per feature of flat features, for display; empty: unknown.
        picture_shape: (channels, height, width) of flat features that are an image; None: they are not.
        is_canary: bool (records,), true for planted records; None: there are none.
        copies: int64 (records,), how often a model that is trained on the record sees it in an epoch; None:
            once.
        frame: the table that estimators get instead of the features; None: they get the features.
        reading: how the columns of a table were read; None: they were not read as a table.
        text: the documents behind token ids; None: there are none, or they are unknown.
    """

    features: AnyArray
    labels: AnyArray
    ids: npt.NDArray[np.str_]
    name: str = "records"
    groups: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    picture_shape: tuple[int, int, int] | None = None
    is_canary: BoolArray | None = None
    copies: IntArray | None = None
    frame: Frame | None = None
    reading: TableReading | None = None
    text: Text | None = None

    def __post_init__(self) -> None:
        problems = _record_problems(self)
        if problems:
            raise InputError(f"{self.name}: " + "; ".join(problems))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_classification(self) -> bool:
        """True when labels are class indices."""
        return self.labels.dtype.kind == "i"

    @property
    def is_text(self) -> bool:
        """True when features are token ids."""
        return self.features.dtype == np.int32

    @property
    def is_language(self) -> bool:
        """True for plain text: the model predicts the next token, and labels say nothing."""
        return self.is_text and self.class_names == DOCUMENT_CLASS

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 (one output) for a regression target."""
        return len(self.class_names) if self.is_classification else 1

    @cached_property
    def digest(self) -> str:
        """Sha256 of everything that defines the records."""
        groups = [a for key in sorted(self.groups) for a in (np.array([key]), self.groups[key])]
        names = np.array(self.class_names, dtype=np.str_)
        planted = [array for array in (self.is_canary, self.copies) if array is not None]
        table = [] if self.frame is None else self.frame.content()
        text = [] if self.text is None else self.text.content()
        return digest_arrays(self.features, self.labels, self.ids, names, *groups, *planted, *table, *text)

    @cached_property
    def duplicate_of(self) -> IntArray:
        """For each record the index of the first one with equal features and label; int64 (records,)."""
        values = self.features if self.frame is None else self.frame.row_codes()
        digests = _row_digests(values, np.unique(self.labels, return_inverse=True)[1])
        order = np.lexsort(digests.T)  # stable: equal ones stay in the order of the records
        is_first = np.ones(len(self), dtype=np.bool_)
        is_first[1:] = (digests[order[1:]] != digests[order[:-1]]).any(axis=1)
        first = np.empty(len(self), dtype=np.int64)
        first[order] = order[is_first][np.cumsum(is_first) - 1]
        return first

    def take(self, index: IntArray) -> Records:
        """The records at `index`, in that order."""
        return replace(
            self,
            features=take_rows(self.features, index),
            labels=self.labels[index],
            ids=self.ids[index],
            groups={key: values[index] for key, values in self.groups.items()},
            is_canary=None if self.is_canary is None else self.is_canary[index],
            copies=None if self.copies is None else self.copies[index],
            frame=None if self.frame is None else self.frame.take(index),
            text=None if self.text is None else self.text.take(index),
        )


def _record_problems(records: Records) -> list[str]:
    """Everything wrong with the records, in words; empty when nothing is."""
    n = len(records.labels)
    if records.labels.ndim != 1 or n == 0:
        return [f"labels must be a non-empty vector, got shape {records.labels.shape}"]
    problems = []
    if records.features.dtype not in (np.float32, np.uint8, np.int32):
        problems.append(
            f"features must be float32, uint8 (images) or int32 (token ids), got {records.features.dtype}"
        )
    if records.labels.dtype not in (np.int64, np.float32):
        problems.append(f"labels must be int64 (classes) or float32 (regression), got {records.labels.dtype}")
    columns = {"features": records.features, "ids": records.ids, **records.groups}
    rows: dict[str, Sized | None] = {**columns, "frame": records.frame}
    rows |= {"is_canary": records.is_canary, "copies": records.copies, "text": records.text}
    for what, array in rows.items():
        if array is not None and len(array) != n:
            problems.append(f"{what} has {len(array)} rows but there are {n} labels")
    if problems:
        return problems
    problems += _token_problems(records)
    bad = _rows_not_finite(records.features)
    if bad.any():
        where = records.ids[int(np.argmax(bad))]
        problems.append(
            f"{int(bad.sum())} records have NaN or infinite features (first: id {where}); "
            "drop or fill them first"
        )
    if not are_unique(records.ids):
        problems.append("ids are not unique; give each record its own")
    return problems + _label_problems(records)


def _token_problems(records: Records) -> list[str]:
    """What keeps features of whole numbers from being token ids."""
    if not records.is_text:
        return [] if records.text is None else ["text belongs to token ids, int32 (records, length)"]
    if records.features.ndim != 2 or not records.features.shape[1]:
        return [f"token ids must have shape (records, length), got {records.features.shape}"]
    vocabulary = None if records.text is None else records.text.tokenizer.vocabulary
    for rows in row_blocks(records.features):
        tokens = records.features[rows]
        bad = (tokens < END).any(axis=1) | (tokens[:, 0] == END)
        bad |= ((tokens[:, :-1] == END) & (tokens[:, 1:] != END)).any(axis=1)
        if vocabulary is not None:
            bad |= (tokens >= vocabulary).any(axis=1)
        if bad.any():
            where = records.ids[rows][int(np.argmax(bad))]
            return [
                f"int32 features are token ids: 0 or more, below the tokenizer's number of tokens, and {END} "
                f"only behind the end of a document, which has one token at least (not so: id {where}); "
                "for a table of numbers, give features.astype('float32')"
            ]
    return []


def _rows_not_finite(features: AnyArray) -> BoolArray:
    """bool (records,): a row holds NaN or an infinite number."""
    bad = np.zeros(len(features), dtype=np.bool_)
    for rows in row_blocks(features) if features.dtype == np.float32 else ():
        bad[rows] = ~np.isfinite(features[rows]).all(axis=tuple(range(1, features.ndim)))
    return bad


def _row_digests(features: AnyArray, label_codes: IntArray) -> npt.NDArray[np.uint64]:
    """128 bits that are equal exactly for records with equal features and label; uint64 (records, 2)."""
    digests = np.empty((len(features), 2), dtype=np.uint64)
    for rows in row_blocks(features):
        codes = label_codes[rows, None].astype(np.int64)
        values = np.ascontiguousarray(features[rows].reshape(len(codes), -1) + 0)  # + 0: -0.0 equals 0.0
        content = np.concatenate([values.view(np.uint8), codes.view(np.uint8)], axis=1)
        texts = content.view(np.dtype((np.void, content.shape[1])))[:, 0].tolist()
        hashes = [hashlib.blake2b(text, digest_size=16).digest() for text in texts]
        digests[rows] = np.frombuffer(b"".join(hashes), np.uint64).reshape(-1, 2)
    return digests


def regression_label_problems(labels: AnyArray) -> list[str]:
    """What keeps numbers from being the labels of a regression."""
    n_bad = int((~np.isfinite(labels)).sum())
    if n_bad:
        return [f"{n_bad} records have NaN or infinite labels; drop them first"]
    largest = float(np.abs(labels).max(initial=0.0))
    if largest and not _SMALLEST_LABEL <= largest <= _LARGEST_LABEL:
        return [
            f"the largest label is {largest:.0e}, and 32-bit numbers cannot hold the squares of such errors; "
            "give the labels in another unit"
        ]
    return []


def _label_problems(records: Records) -> list[str]:
    labels = records.labels
    if not records.is_classification:
        return regression_label_problems(labels)
    present = np.unique(labels)
    if present[0] < 0 or present[-1] >= len(records.class_names):
        return [
            f"labels span {present[0]}..{present[-1]} but there are {len(records.class_names)} class names"
        ]
    if len(present) < 2 and not records.is_language:
        return [f"all labels are {records.class_names[present[0]]!r}; an audit needs at least two classes"]
    return []


@dataclass(frozen=True, eq=False)
class Design:
    """Which records each model is trained on.

    Attributes:
        in_mask: bool (models, columns).
        columns: int64 (models, columns), the record behind each column of each model; None when
            column j is record j for every model (every ordinary audit). Studies whose models have
            different universes of records use it, so that each model is queried about its own only.
        models: int64 (models,), the models' numbers in the population they were taken from; None: all of it.
        units: int64 (columns,), the unit of each record: all records of a unit are members of a model, or
            none is. Units are numbered in the order of their first records. None: every record is a unit.
        diverged: the models that were drawn with these and diverged, under their own numbers; None: no model.
    """

    in_mask: BoolArray
    columns: IntArray | None = None
    models: IntArray | None = None
    units: IntArray | None = None
    diverged: Design | None = None

    @property
    def numbers(self) -> IntArray:
        """The models' numbers in the population they were taken from; int64 (models,)."""
        return np.arange(self.n_models) if self.models is None else self.models

    @property
    def n_models(self) -> int:
        """Number of models."""
        return int(self.in_mask.shape[0])

    @property
    def n_records(self) -> int:
        """Number of records each model is queried about."""
        return int(self.in_mask.shape[1])

    def members(self, model: int) -> IntArray:
        """Indices of the records model `model` is trained on; int64 (members,)."""
        at = np.flatnonzero(self.in_mask[model])
        return at if self.columns is None else self.columns[model, at]

    def rows(self, models: IntArray) -> BoolArray:
        """`in_mask[models]`; for all models in order the mask itself, not a copy of it."""
        is_all = len(models) == self.n_models and bool((models == np.arange(self.n_models)).all())
        return self.in_mask if is_all else self.in_mask[models]

    @cached_property
    def digest(self) -> str:
        """Sha256 of the design."""
        optional = [array for array in (self.columns, self.units) if array is not None]
        return digest_arrays(self.in_mask, *optional)

    @cached_property
    def of_units(self) -> Design:
        """Which units each model is trained on; the design itself where every record is a unit."""
        if self.units is None:
            return self
        first = np.unique(self.units, return_index=True)[1]
        diverged = None if self.diverged is None else self.diverged.of_units
        return Design(self.in_mask[:, first], None, self.models, None, diverged)

    def take(self, models: IntArray) -> Design:
        """The design of some of the models."""
        columns = None if self.columns is None else self.columns[models]
        return Design(self.in_mask[models], columns, self.numbers[models], self.units, self.diverged)

    def converged(self, diverged: IntArray) -> Design:
        """The design of the other models, where these diverged; their memberships stay known to attacks.

        A balanced design balances all of its models. Without the memberships of those that diverged, partners
        (`leakscope.attacks.blocks`) would be drawn with a bias, and noise would look like leakage.
        """
        if not len(diverged):
            return self
        all_diverged = [self.take(diverged), *([] if self.diverged is None else [self.diverged])]
        in_mask = np.concatenate([one.in_mask for one in all_diverged])
        numbers = np.concatenate([one.numbers for one in all_diverged])
        others = self.take(np.setdiff1d(np.arange(self.n_models), diverged))
        return replace(others, diverged=Design(in_mask, models=numbers, units=self.units))


@dataclass(frozen=True, eq=False)
class Signals:
    """The signals of a bank's models: one array per signal, all (models, checkpoints, columns).

    Two signals have one more axis where they are stored: `logits` (models, checkpoints, columns, classes) and
    `query_log_odds` (models, checkpoints, columns, queries).
    `epochs` are the checkpoints' epochs; `labels` is (models, columns) or (columns,).
    """

    arrays: Mapping[str, AnyArray]
    epochs: tuple[int, ...]
    labels: AnyArray

    def last(self, name: str) -> AnyArray:
        """Signal `name` at the last checkpoint; (models, columns[, classes or queries])."""
        if name not in self.arrays:
            stored = ", ".join(sorted(self.arrays))
            raise InputError(f"this bank has no signal {name!r} (it has {stored}); add it to `signals`")
        return self.arrays[name][:, -1]

    def take(self, models: IntArray) -> Signals:
        """The signals of some of the models."""
        labels = self.labels if self.labels.ndim == 1 else self.labels[models]
        return Signals({k: v[models] for k, v in self.arrays.items()}, self.epochs, labels)


@dataclass(frozen=True, eq=False)
class Scores:
    """One attack's scores; higher always means "member". Finite or infinite, never NaN.

    Attributes:
        attack: name of the attack.
        targets: int64 (targets,), which models of the bank were attacked.
        values: float64 (targets, columns).
    """

    attack: str
    targets: IntArray
    values: FloatArray
