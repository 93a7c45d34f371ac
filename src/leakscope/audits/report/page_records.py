"""The records of an audit's page: a table, most exposed first, and for each record the models' outputs.

assets/audit.js draws the table from arrays: figures of the 100,000 most exposed records, in the table's
order; for as many of the most exposed as fit a fixed number of bytes also every model's output, and mean
outputs over training. Where the membership of a given model is secret, only its references have outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disk.parquet import read_stored, read_stored_rows, stored_columns, stored_height
from leakscope.disk.string_arrays import distinct
from leakscope.evaluate.attacked import Attacked
from leakscope.evaluate.judge import RECORDS
from leakscope.evaluate.results import AuditResults
from leakscope.leakage.checkpoints import LEAKAGE_SIGNALS
from leakscope.report.blocks import Raw
from leakscope.report.charts import Chart, PlotlyFigure, script_json
from leakscope.report.embed import Embeddable, quantised
from leakscope.report.page import Section
from leakscope.report.previews import Previews, exposure_order
from leakscope.report.templates import template

if TYPE_CHECKING:
    import polars as pl

_MOST_ROWS = 100_000
_DETAIL_BYTES = 1_500_000
"""Outputs and trajectories together, before compression."""
_RISK = ("tpr", "fpr", "advantage", "advantage_low", "advantage_high")
_KNOWN = {"id", "label", "is_member", "exposed", "bits", "n_in", "n_out", "p_value", "rho_kl", *_RISK,
          "tpr_low", "tpr_high", "fpr_low", "fpr_high", "total_variation"}  # fmt: skip
_MOST_CODES = 60
_STATIC_ROWS = 25


@dataclass(frozen=True)
class Column:
    """A column of the table, as the script reads it; `names` are the texts of a "code" column."""

    key: str
    title: str
    kind: Literal["id", "risk", "number", "flag", "text", "code"]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Details:
    """Which outputs of single models are in the page, as the script reads it.

    Attributes:
        detailed: number of records with outputs, from the top of the table.
        epochs: epochs of the checkpoints.
        signal: the signal whose values they are.
        models: number of models.
    """

    detailed: int = 0
    epochs: tuple[int, ...] = ()
    signal: str = ""
    models: int = 0


@dataclass(frozen=True, eq=False)
class RecordRows:
    """What the page holds about records.

    Attributes:
        arrays: for the script, by name; rows in the table's order.
        columns: the columns of the table.
        absent: what is missing, one sentence each.
        others: figures without a column of their own, like a hardness.
        details: outputs of single models.
    """

    arrays: dict[str, Embeddable] = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    details: Details = Details()

    @property
    def ids(self) -> AnyArray:
        """str (records,), as they may be shown."""
        return np.asarray(self.arrays["id"])

    @property
    def are_ranked(self) -> bool:
        """Whether anything tells which records are the most exposed."""
        return not {"advantage", "bits"}.isdisjoint(self.arrays)

    def add(self, column: Column, values: Embeddable) -> None:
        """Adds a column and its values."""
        self.columns.append(column)
        self.arrays[column.key] = values


def record_rows(results: AuditResults, attacked: Attacked, is_secret: bool) -> RecordRows:
    """The arrays and columns of the table; `is_secret`: nothing depends on who the target's members are."""
    folder = attacked.bank.folder
    order, n_records = _most_exposed(folder)
    stored = read_stored_rows(folder / RECORDS, order)
    figures, texts = _columns(stored)
    rows = RecordRows()
    say = results.config.noun.say
    rows.add(Column("id", say("record"), "id"), texts.pop("id"))
    _add_figures(rows, figures, is_secret)
    if len(order) < n_records:
        which = f"{len(order):,} most exposed" if rows.are_ranked else f"first {len(order):,}"
        listed = say(f"This page lists the {which} of {n_records:,} records")
        rows.absent.insert(0, f"{listed}; {RECORDS} has all.")
    _add_texts(rows, texts)
    hidden_models = np.array((results.config.targets or ()) if is_secret else (), dtype=np.int64)
    n_absent = len(rows.absent)
    details = _add_outputs(rows, attacked, order, hidden_models)
    rows.absent[n_absent:] = map(say, rows.absent[n_absent:])
    _add_previews(rows, Previews.read(folder), order)
    others = [
        name for name in figures if name not in _KNOWN and not (is_secret and name.startswith("score_"))
    ]
    rows.arrays.update({f"other:{name}": figures[name] for name in others})
    return RecordRows(rows.arrays, rows.columns, rows.absent, others, details)


def records_section(rows: RecordRows, results: AuditResults) -> Section:
    """The table, its controls and the panel of one record."""
    empty: PlotlyFigure = {"data": [], "layout": {}}
    say = results.config.noun.say
    note = "Most exposed first." if rows.are_ranked else "In the order of the input: no figure ranks them."
    if rows.details.detailed:
        output = "output" if results.population.rows is None else "mean output"
        note = f"{note} Select a record to see every model's {output} on it."
    if results.exposed:
        exposed, n_records = results.exposed, results.population.records
        counted = f"Exposed records: {exposed.reason}"
        if exposed.records is not None:
            counted = f"{exposed.records:,} of {n_records:,} records are exposed"
        note = f"{counted}. {note}"
    note = say(note)
    table = {"columns": rows.columns, "records": len(rows.ids), "others": rows.others}
    table |= {"many": results.config.noun.many}
    body = template(
        "records.html.j2",
        settings=script_json({**table, **asdict(rows.details)}),
        choices=[column for column in rows.columns if column.kind == "code"],
        has_exposed=results.exposed is not None and results.exposed.records is not None,
        ids=rows.ids[:_STATIC_ROWS].tolist(),
        absent=rows.absent,
        n_records=len(rows.ids),
        noun=results.config.noun,
        strip=Chart("record-strip", empty, say("Every model's output on this record."), height=220).html(),
        path=Chart("record-path", empty, say("Mean output on this record over training."), height=260).html(),
    )
    return Section("records", say("Records"), [Raw(body)], note)


def _most_exposed(folder: Path) -> tuple[IntArray, int]:
    """Indices of the records to list, the most exposed first, and the number of all records."""
    keys = [name for name in stored_columns(folder / RECORDS) if name in ("advantage", "bits")]
    n_records = stored_height(folder / RECORDS)
    frame = read_stored(folder / RECORDS, keys)
    columns = {name: frame[name].to_numpy() for name in keys}
    return exposure_order(columns.get("advantage"), columns.get("bits"), n_records, _MOST_ROWS), n_records


def _columns(stored: pl.DataFrame) -> tuple[dict[str, AnyArray], dict[str, AnyArray]]:
    """Columns of numbers; id, label (a number in a regression) and groups."""
    import polars as pl

    names = [name for name in stored.columns if stored[name].dtype == pl.String or name == "label"]
    texts = {name: stored[name].to_numpy() for name in names}
    figures = {name: _numbers(stored[name]) for name in stored.columns if name not in texts}
    return figures, {name: v.astype(str) if v.dtype.kind == "O" else v for name, v in texts.items()}


def _numbers(column: pl.Series) -> AnyArray:
    """Numbers as they are; booleans as 0 and 1, NaN where they are unknown."""
    import polars as pl

    return (column.cast(pl.Float32) if column.dtype == pl.Boolean else column).to_numpy()


def _add_texts(rows: RecordRows, texts: Mapping[str, AnyArray]) -> None:
    """Label and groups: columns of few different texts as codes, to filter by; others as they are."""
    for k, (title, values) in enumerate(texts.items()):
        key = f"text:{k}"
        if values.dtype.kind != "U":
            rows.add(Column(key, title, "number"), values.astype(np.float64))
            continue
        names, codes = distinct(values)
        if len(names) > _MOST_CODES:
            rows.add(Column(key, title, "text"), values)
        else:
            rows.add(Column(key, title, "code", tuple(names.tolist())), codes)


def _add_figures(rows: RecordRows, figures: Mapping[str, AnyArray], is_secret: bool) -> None:
    if "advantage" in figures:
        rows.columns.append(Column("advantage", "risk", "risk"))
        rows.arrays.update({name: quantised(figures[name], -1, 1, bits=16) for name in _RISK})
        rows.arrays.update({name: figures[name] for name in ("n_in", "n_out")})
    else:
        rows.absent.append("Records have no risk over models, because only one model was attacked.")
    if "bits" in figures and np.isfinite(figures["bits"]).any():
        bits = quantised(figures["bits"], float(np.nanmin(figures["bits"])), 1.0, bits=16)
        rows.add(Column("bits", "bits", "number"), bits)
    if "exposed" in figures:
        rows.add(Column("exposed", "exposed", "flag"), figures["exposed"])
    if "is_member" in figures and not is_secret:
        rows.add(Column("is_member", "member", "flag"), figures["is_member"])
    elif "is_member" in figures:
        rows.absent.append(
            "Membership in this model's training set and the scores of single records are left out; "
            "the option --with-membership of leakscope report includes both."
        )


def _add_outputs(rows: RecordRows, attacked: Attacked, order: IntArray, hidden_models: IntArray) -> Details:
    """Every model's output on the most exposed records, and mean outputs over training."""
    stored, design = attacked.signals.arrays, attacked.memberships
    name = next((name for name in (*LEAKAGE_SIGNALS, "loss") if name in stored), None)
    signals = attacked.means_of_units([] if name is None else [name])
    models = np.setdiff1d(np.arange(design.n_models), hidden_models)
    if name is None or not len(models) or design.columns is not None:
        rows.absent.append(
            "The bank stores no outputs of single models that could be shown."
            if len(models)
            else "Outputs are left out: those of the only model would reveal its members."
        )
        return Details()
    n_epochs = len(signals.epochs)
    n = min(len(order), max(1, _DETAIL_BYTES // (2 * len(models) + 4 * n_epochs)))
    shown = order[:n]
    in_mask = design.in_mask[np.ix_(models, shown)]  # (models, shown)
    outputs = [signals.arrays[name][:, at][np.ix_(models, shown)] for at in range(n_epochs)]
    last = outputs[-1].astype(np.float64)
    rows.arrays["outputs"] = quantised(last.T, *_range(last), bits=16)  # (shown, models)
    rows.arrays["in_mask"] = np.packbits(in_mask.T, axis=1, bitorder="little")
    if n_epochs > 1:
        paths = np.stack([_in_out_means(values, in_mask) for values in outputs])  # (checkpoints, 2, shown)
        rows.arrays["paths"] = quantised(np.moveaxis(paths, 2, 0), *_range(paths), bits=16)
    else:
        rows.absent.append("Records have no trajectory over training, because the run has one checkpoint.")
    if n < len(order):
        rows.absent.append(f"This page has outputs of single models for the {n:,} most exposed records.")
    return Details(n, tuple(signals.epochs), name, len(models))


def _in_out_means(values: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean output of models trained on a record and of the other models; float64 (2, records)."""
    n_in = in_mask.sum(axis=0)
    total = values.sum(axis=0, dtype=np.float64)
    inside = np.where(in_mask, values, 0).sum(axis=0, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([inside / n_in, (total - inside) / (len(in_mask) - n_in)])


def _range(values: FloatArray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _add_previews(rows: RecordRows, previews: Previews | None, order: IntArray) -> None:
    """Thumbnails or distinctive fields, by row of the table."""
    if previews is None:
        rows.absent.append("This run stores no images or fields of its records.")
        return
    row_of = {record: row for row, record in enumerate(order.tolist())}
    listed = np.array([record in row_of for record in previews.records.tolist()], dtype=np.bool_)
    preview_rows = [row_of[record] for record in previews.records[listed].tolist()]
    rows.arrays["preview_rows"] = np.array(preview_rows, dtype=np.int64)
    if len(previews.pictures):
        rows.arrays["pictures"] = previews.pictures[listed]
    if len(previews.fields):
        rows.arrays["fields"] = previews.fields[listed]
