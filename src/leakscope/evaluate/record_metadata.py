"""What a run stores about its records, so that it can be evaluated again without them: `facts.parquet`.

A bank holds the models' outputs. Groups, duplicates and how well features alone predict membership are
properties of the records; they are stored beside the bank, so every number of a run can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.design import unit_sizes
from leakscope.disk.mmap_rows import take_rows
from leakscope.disk.parquet import check_parquet, note_written
from leakscope.disk.scratch import blocks, evict_pages
from leakscope.disk.storage import atomic_file
from leakscope.disk.string_arrays import from_series
from leakscope.errors import CorruptBankError, InputError
from leakscope.evaluate.hygiene.shift import (
    ShiftScores,
    ShiftSearch,
    early_search,
    search_for_shift,
    text_shift_scores,
)
from leakscope.evaluate.nouns import Noun
from leakscope.types import Design, Records

if TYPE_CHECKING:
    import polars as pl

Column: TypeAlias = "AnyArray | pl.Series"
FACTS = "facts.parquet"
_GROUP = "group:"
_ROWS_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class RecordMetadata:
    """What is known of the records; every array is (records,).

    Attributes:
        ids: str.
        labels: class names, or numbers for a regression target.
        groups: column name -> str.
        duplicate_of: int64, the first record with equal features and label; None: features unknown.
        shift: how much a record's features look like those of the first target's members, by a classifier
            trained on other records. None: features unknown.
        is_canary: bool, the records that were planted; None: there are none.
        near_copies: int64, equal numbers for documents that are nearly the same; None: they are no documents,
            or too many.
        secret_candidates: int64, number of candidates of the secret that was planted in a document, itself
            included; 0 where there is none. None: no secrets were planted.
    """

    ids: npt.NDArray[np.str_]
    labels: AnyArray
    groups: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    duplicate_of: IntArray | None = None
    shift: ShiftScores | None = None
    is_canary: BoolArray | None = None
    near_copies: IntArray | None = None
    secret_candidates: IntArray | None = None

    @property
    def shift_scores(self) -> FloatArray | None:
        """float64 (records,), the values of `shift`."""
        return None if self.shift is None else self.shift.values

    @property
    def canaries(self) -> IntArray:
        """Indices of the canaries, ascending; int64 (canaries,)."""
        return np.empty(0, np.int64) if self.is_canary is None else np.flatnonzero(self.is_canary)

    def without_canaries(self) -> RecordMetadata:
        """The same of the other records."""
        if self.is_canary is None:
            return self
        own = np.flatnonzero(~self.is_canary)
        first = None
        if self.duplicate_of is not None:
            _, at, group = np.unique(self.duplicate_of[own], return_index=True, return_inverse=True)
            first = at[group]
        return RecordMetadata(
            self.ids[own],
            self.labels[own],
            {name: values[own] for name, values in self.groups.items()},
            first,
            None if self.shift is None else self.shift.of(own),
            near_copies=None if self.near_copies is None else self.near_copies[own],
        )

    def of_units(self, units: IntArray | None, unit: str | None) -> UnitMetadata:
        """The same of units, where records of one unit agree.

        Args:
            units: int64 (records,), the unit of each record; None: every record is one.
            unit: the column that names them.
        """
        if units is None:
            return UnitMetadata(self.ids, self.labels, self.groups, {})
        first, sizes = np.unique(units, return_index=True)[1], unit_sizes(units)
        columns = {name: values for name, values in self.groups.items() if name != unit}
        varying = {name: values for name, values in columns.items() if not _agree(values, units, first)}
        reasons = {name: f"it varies within {Noun.of_unit(unit).many}" for name in varying}
        labels = self.labels[first] if _agree(self.labels, units, first) else None
        named = self.groups.get(unit or "")
        names = first.astype(np.str_) if named is None else named[first]
        groups = {name: values[first] for name, values in columns.items() if name not in varying}
        return UnitMetadata(names, labels, groups, reasons, sizes)

    def write(self, folder: Path) -> None:
        """Writes facts.parquet."""
        optional = {
            "duplicate_of": self.duplicate_of,
            "shift_score": self.shift_scores,
            "is_canary": self.is_canary,
            "near_copies": self.near_copies,
            "secret_candidates": self.secret_candidates,
        }
        write_columns(
            folder / FACTS,
            {
                "id": self.ids,
                "label": self.labels,
                **{name: values for name, values in optional.items() if values is not None},
                **{f"{_GROUP}{name}": values for name, values in self.groups.items()},
            },
        )

    @classmethod
    def read(cls, folder: Path) -> RecordMetadata:
        """Reads the facts.parquet of a run folder."""
        import polars as pl

        if not (folder / FACTS).exists():
            raise InputError(f"{folder / FACTS} is missing; run the same audit again to write it")
        try:
            check_parquet(folder / FACTS)
            frame = pl.read_parquet(folder / FACTS, glob=False, hive_partitioning=False)
            columns = {name: _array(frame[name]) for name in frame.columns}
            _check_columns(columns)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise CorruptBankError(
                f"{folder / FACTS} is damaged ({reason[0]}); run the same audit again to write it"
            ) from error
        scores = columns.get("shift_score")
        return cls(
            columns["id"],
            columns["label"],
            {k.removeprefix(_GROUP): v for k, v in columns.items() if k.startswith(_GROUP)},
            columns.get("duplicate_of"),
            None if scores is None else ShiftScores(lambda: scores),
            columns.get("is_canary"),
            columns.get("near_copies"),
            columns.get("secret_candidates"),
        )


@dataclass(frozen=True, eq=False)
class UnitMetadata:
    """What is known of those whose membership is in question: records, or units; every array is (units,).

    Attributes:
        names: str, the ids of records.
        labels: of records; None where records of one unit have different labels.
        groups: column name -> str.
        varying: column name -> why it has no groups of units.
        sizes: int64, number of records; None: every record is a unit.
    """

    names: npt.NDArray[np.str_]
    labels: AnyArray | None
    groups: Mapping[str, npt.NDArray[np.str_]]
    varying: Mapping[str, str]
    sizes: IntArray | None = None


def _agree(values: AnyArray, units: IntArray, first: IntArray) -> bool:
    """Whether all records of every unit have the same value."""
    return bool((values == values[first][units]).all())


def begin_description(
    records: Records, is_member: BoolArray, units: IntArray | None = None
) -> ShiftSearch | None:
    """Begins early what takes longest of `describe_records`, where a second process can do it.

    Args:
        records: the records.
        is_member: bool (records,), the members of the first model.
        units: int64 (records,), the unit of each record; None: every record is one.
    """
    if records.is_text:
        return None
    return early_search(partial(take_rows, records.features), is_member, units)


def describe_records(records: Records, design: Design, begun: ShiftSearch | None = None) -> RecordMetadata:
    """The metadata of records whose features are at hand.

    Args:
        records: the records.
        design: who was in which training set; the shift check looks at the first model's members.
        begun: what `begin_description` returned; it counts if the first model has the members it had then.
    """
    labels = np.array(records.class_names)[records.labels] if records.is_classification else records.labels
    near_copies = None if records.text is None else records.text.near_copies
    return RecordMetadata(
        records.ids,
        labels,
        records.groups,
        records.duplicate_of,
        _shift_scores(records, design, begun),
        records.is_canary,
        near_copies,
        _secret_candidates(records),
    )


def _shift_scores(records: Records, design: Design, begun: ShiftSearch | None) -> ShiftScores:
    """How much each record looks like a member of the first model, by its features or its words."""
    is_member, units = design.in_mask[0], design.units
    if records.is_text:
        of_words = text_shift_scores(partial(_texts_at, records), is_member, units=units)
        return ShiftScores(lambda: of_words)
    if begun is None or not np.array_equal(begun.is_member, is_member):
        begun = search_for_shift(partial(take_rows, records.features), is_member, units=units)
    return ShiftScores(begun.scores)


def _texts_at(records: Records, index: IntArray) -> list[str]:
    """Documents; where their texts are unknown, tokens take the place of words."""
    if records.text is not None:
        return [records.text.documents[i] for i in index.tolist()]
    rows = take_rows(records.features, index)
    return [" ".join(f"t{token}" for token in row[row >= 0].tolist()) for row in rows]


def _secret_candidates(records: Records) -> IntArray | None:
    """How many candidates the secret of each document has, itself included."""
    secrets = None if records.text is None else records.text.secrets
    if secrets is None:
        return None
    candidates = np.zeros(len(records), dtype=np.int64)
    candidates[secrets.records] = 1 + secrets.alternatives.shape[1]
    return candidates


def _array(series: pl.Series) -> AnyArray:
    import polars as pl

    return from_series(series) if series.dtype == pl.String else series.to_numpy()


def _check_columns(columns: Mapping[str, AnyArray]) -> None:
    """Raises ValueError unless these are the columns that `write` writes."""
    kinds = {"id": "U", "label": "Uiuf", "duplicate_of": "i", "shift_score": "f", "is_canary": "b"}
    kinds |= {"near_copies": "i", "secret_candidates": "i"}
    for name in ("id", "label"):
        if name not in columns:
            raise ValueError(f"it has no column {name!r}")
    for name, values in columns.items():
        if values.dtype.kind not in kinds.get(name, "U"):
            raise ValueError(f"column {name!r} has type {values.dtype}")
    duplicate_of = columns.get("duplicate_of", np.zeros(0, np.int64))
    if len(duplicate_of) and not 0 <= duplicate_of.min() <= duplicate_of.max() < len(duplicate_of):
        raise ValueError("column 'duplicate_of' refers to records that do not exist")


def nullable(values: BoolArray, is_known: BoolArray) -> pl.Series:
    """A column of booleans, null where they are unknown."""
    import polars as pl

    return pl.Series(values, dtype=pl.Boolean).set(pl.Series(~is_known), None)


def write_columns(path: Path, columns: Mapping[str, AnyArray]) -> None:
    """Writes columns as a parquet file."""
    n_rows = len(next(iter(columns.values())))

    def block(rows: slice) -> dict[str, Column]:
        copies: dict[str, Column] = {name: np.array(values[rows]) for name, values in columns.items()}
        evict_pages(*columns.values())
        return copies

    write_rows(path, n_rows, block)


def write_tables(path: Path, tables: Sequence[Mapping[str, Column]]) -> None:
    """Writes tables with the same columns, one below the other, as a parquet file."""
    import polars as pl

    with atomic_file(path) as file:
        pl.concat([pl.DataFrame(dict(table)) for table in tables]).write_parquet(file)
    note_written(path)


def write_rows(path: Path, n_rows: int, rows: Callable[[slice], Mapping[str, Column]]) -> None:
    """Writes a parquet file block by block.

    Args:
        path: the file.
        n_rows: number of rows.
        rows: called with slices, in order; returns their columns.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    def frames(*_: Any) -> Iterator[pl.DataFrame]:
        return (pl.DataFrame(dict(rows(block))) for block in blocks(n_rows, _ROWS_AT_ONCE))

    source = register_io_source(frames, schema=pl.DataFrame(dict(rows(slice(0, 1)))).schema)
    with atomic_file(path) as file:
        source.sink_parquet(file)
    note_written(path)
