"""The records of an audit's page: a table most exposed first and, of each record, what the models answered.

The table is drawn from arrays by assets/audit.js: figures of the 100,000 most exposed records, in the table's
order; answers of every model, and their means over training, of as many of the most exposed as fit a fixed
budget of bytes.
What may be told about a single record is `Disclosure`'s to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.disclosure import Disclosure, shown_ids
from leakscope.disk.parquet import read_stored, read_stored_rows, stored_columns, stored_height
from leakscope.disk.string_arrays import distinct
from leakscope.evaluate.judge import RECORDS
from leakscope.leakage.checkpoints import ANSWERS
from leakscope.report.charts import chart, script_json
from leakscope.report.embed import Embeddable, quantised
from leakscope.report.page import Section
from leakscope.report.previews import Previews, exposure_order
from leakscope.report.templates import template
from leakscope.types import Design, Signals

if TYPE_CHECKING:
    import polars as pl

Results = dict[str, Any]
_MOST_ROWS = 100_000
_DETAIL_BYTES = 1_500_000
"""Answers and trajectories together, before compression."""
_RISK = ("tpr", "fpr", "advantage", "advantage_low", "advantage_high")
_KNOWN = {"id", "label", "is_member", "exposed", "bits", "n_in", "n_out", "p_value", "rho_kl", *_RISK,
          "tpr_low", "tpr_high", "fpr_low", "fpr_high", "advantage_bound"}  # fmt: skip
_MOST_CODES = 60
_STATIC_ROWS = 25


@dataclass(frozen=True, eq=False)
class RecordRows:
    """What the page holds about records.

    Attributes:
        arrays: for the script, by name; rows in the table's order.
        settings: what the script must know: columns, epochs, number of records with details.
        ids: str (records,), in the table's order, as they may be shown.
        absent: what is missing, one sentence each.
    """

    arrays: dict[str, Embeddable]
    settings: Results
    ids: AnyArray
    absent: list[str]


def record_rows(
    folder: Path, results: Results, signals: Signals, design: Design, disclosure: Disclosure
) -> RecordRows:
    """The arrays and settings of the records' table."""
    order, n_records = _most_exposed(folder)
    stored = read_stored_rows(folder / RECORDS, order)
    figures, texts = _figures(stored), _texts(stored)
    is_secret = bool(results["config"].get("targets")) and not disclosure.with_membership
    arrays: dict[str, Embeddable] = {"id": shown_ids(folder, texts.pop("id"), disclosure.redacted)}
    columns = [{"key": "id", "title": "record", "kind": "id"}]
    absent: list[str] = []
    if len(order) < n_records:
        absent.append(
            f"The {len(order):,} most exposed of {n_records:,} records are listed; {RECORDS} has all of them."
        )
    _add_figures(figures, is_secret, arrays, columns, absent)
    if not disclosure.redacted:
        _add_texts(texts, arrays, columns)
    targets = results["config"].get("targets") or []
    left_out = np.asarray(targets if is_secret else [], dtype=np.int64)
    detailed = _add_answers(signals, design, order, left_out, arrays, absent)
    _add_previews(None if disclosure.redacted else Previews.read(folder), order, arrays, absent)
    others = [name for name in figures if _is_other(name, is_secret)]
    arrays |= {f"other:{name}": figures[name] for name in others}
    settings = {"columns": columns, "records": len(order), **detailed, "others": others}
    return RecordRows(arrays, settings, np.asarray(arrays["id"]), absent)


def records_section(rows: RecordRows, results: Results, disclosure: Disclosure) -> Section:
    """The table, its controls and the panel of one record."""
    empty: Results = {"data": [], "layout": {}}
    exposed = results.get("exposed")
    note = "Most exposed first. Choose a record to see what every model answered about it."
    if exposed:
        note = f"{exposed['records']:,} of {results['population']['records']:,} records are exposed. {note}"
    body = template(
        "records.html.j2",
        settings=script_json(rows.settings),
        choices=[column for column in rows.settings["columns"] if column["kind"] == "code"],
        has_exposed="exposed" in rows.arrays,
        ids=rows.ids[:_STATIC_ROWS].tolist(),
        absent=rows.absent,
        n_records=rows.settings["records"],
        strip=chart("record-strip", empty, "What each model answered about this record.", height=220),
        path=chart("record-path", empty, "Mean answer about this record over training.", height=260),
    )
    return Section("records", "Records", body, note)


def _most_exposed(folder: Path) -> tuple[IntArray, int]:
    """Indices of the records to list, the most exposed first, and the number of all."""
    keys = [name for name in stored_columns(folder / RECORDS) if name in ("advantage", "bits")]
    n_records = stored_height(folder / RECORDS)
    frame = read_stored(folder / RECORDS, keys)
    columns = {name: frame[name].to_numpy() for name in keys}
    return exposure_order(columns.get("advantage"), columns.get("bits"), n_records, _MOST_ROWS), n_records


def _figures(stored: pl.DataFrame) -> dict[str, AnyArray]:
    """Numbers by column; a regression's label is none."""
    import polars as pl

    numbers = [name for name in stored.columns if stored[name].dtype != pl.String and name != "label"]
    return {name: stored[name].to_numpy() for name in numbers}


def _texts(stored: pl.DataFrame) -> dict[str, AnyArray]:
    """Id, label (a number in a regression) and groups by column."""
    import polars as pl

    names = [name for name in stored.columns if stored[name].dtype == pl.String or name == "label"]
    columns = {name: stored[name].to_numpy() for name in names}
    return {name: v.astype(str) if v.dtype.kind == "O" else v for name, v in columns.items()}


def _is_other(name: str, is_secret: bool) -> bool:
    """Figures the page has no column for, like a hardness; a given model's scores where they may be told."""
    return name not in _KNOWN and not (is_secret and name.startswith("score_"))


def _add_texts(
    texts: dict[str, AnyArray], arrays: dict[str, Embeddable], columns: list[dict[str, Any]]
) -> None:
    """Label and groups: few different texts as codes, to filter by; many as they are."""
    for k, (title, values) in enumerate(texts.items()):
        key = f"text:{k}"
        if values.dtype.kind != "U":
            arrays[key] = values.astype(np.float64)
            columns.append({"key": key, "title": title, "kind": "number"})
            continue
        names, codes = distinct(values)
        if len(names) > _MOST_CODES:
            arrays[key] = values
            columns.append({"key": key, "title": title, "kind": "text"})
        else:
            arrays[key] = codes
            columns.append({"key": key, "title": title, "kind": "code", "names": names.tolist()})


def _add_figures(
    figures: dict[str, AnyArray],
    is_secret: bool,
    arrays: dict[str, Embeddable],
    columns: list[dict[str, Any]],
    absent: list[str],
) -> None:
    if "advantage" in figures:
        arrays |= {name: quantised(figures[name], -1, 1, bits=16) for name in _RISK}
        arrays |= {name: figures[name] for name in ("n_in", "n_out")}
        columns.append({"key": "advantage", "title": "risk", "kind": "risk"})
    else:
        absent.append("One model was judged, so no record has a risk over models.")
    if "bits" in figures and np.isfinite(figures["bits"]).any():
        arrays["bits"] = quantised(figures["bits"], float(np.nanmin(figures["bits"])), 1.0, bits=16)
        columns.append({"key": "bits", "title": "bits", "kind": "number"})
    if "exposed" in figures:
        arrays["exposed"] = figures["exposed"].astype(np.bool_)
        columns.append({"key": "exposed", "title": "exposed", "kind": "flag"})
    if "is_member" in figures and not is_secret:
        arrays["is_member"] = figures["is_member"].astype(np.bool_)
        columns.append({"key": "is_member", "title": "member", "kind": "flag"})
    elif "is_member" in figures:
        absent.append(
            "Who was a member of this model, and each record's score in it, is left out; "
            "`leakscope report --with-membership` shows both."
        )


def _add_answers(
    signals: Signals,
    design: Design,
    order: IntArray,
    left_out: IntArray,
    arrays: dict[str, Embeddable],
    absent: list[str],
) -> Results:
    """Every model's answer about the most exposed records, and the mean of each side over training."""
    name = next((name for name in (*ANSWERS, "loss") if name in signals.arrays), None)
    models = np.setdiff1d(np.arange(design.n_models), left_out)
    if name is None or not len(models) or design.columns is not None:
        absent.append(
            "The bank keeps no answers of single models to show."
            if len(models)
            else "The only model is the one in question, and its answers would tell who its members are."
        )
        return {"detailed": 0, "epochs": [], "signal": ""}
    n_epochs = len(signals.epochs)
    n = min(len(order), max(1, _DETAIL_BYTES // (2 * len(models) + 4 * n_epochs)))
    shown = order[:n]
    in_mask = design.in_mask[np.ix_(models, shown)]  # (models, shown)
    answers = [signals.arrays[name][:, at][np.ix_(models, shown)] for at in range(n_epochs)]
    paths = [_side_means(values, in_mask) for values in answers]
    last = answers[-1].astype(np.float64)
    low, high = _range(last)
    arrays["answers"] = quantised(last.T, low, high, bits=16)  # (shown, models)
    arrays["saw"] = np.packbits(in_mask.T, axis=1, bitorder="little")
    if n_epochs > 1:
        both = np.stack(paths)  # (checkpoints, 2, shown)
        arrays["paths"] = quantised(np.moveaxis(both, 2, 0), *_range(both), bits=16)
    else:
        absent.append("One checkpoint was kept, so records have no trajectory over training.")
    if n < len(order):
        absent.append(f"Answers of single models are in this file for the {n:,} most exposed records.")
    return {"detailed": n, "epochs": list(signals.epochs), "signal": name, "models": len(models)}


def _side_means(values: AnyArray, in_mask: BoolArray) -> FloatArray:
    """Mean answer of models that saw a record and of those that did not; float64 (2, records)."""
    n_in = in_mask.sum(axis=0)
    total = values.sum(axis=0, dtype=np.float64)
    inside = np.where(in_mask, values, 0).sum(axis=0, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([inside / n_in, (total - inside) / (len(in_mask) - n_in)])


def _range(values: FloatArray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def _add_previews(
    previews: Previews | None, order: IntArray, arrays: dict[str, Embeddable], absent: list[str]
) -> None:
    """Thumbnails or telling fields, by row of the table."""
    if previews is None:
        absent.append("No pictures or fields of the records are shown: this run keeps none, or is redacted.")
        return
    row_of = {record: row for row, record in enumerate(order.tolist())}
    listed = np.array([record in row_of for record in previews.records.tolist()], dtype=np.bool_)
    arrays["preview_rows"] = np.array([row_of[r] for r in previews.records[listed].tolist()], dtype=np.int64)
    if len(previews.pictures):
        arrays["pictures"] = previews.pictures[listed]
    if len(previews.fields):
        arrays["fields"] = previews.fields[listed]
