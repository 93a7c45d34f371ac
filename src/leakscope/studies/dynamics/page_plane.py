"""The interactive vulnerability plane of report.html: every record at every checkpoint.

Rates are shares of a few models and take few values. A table of these values and one byte per rate hold
50,000 records at 20 checkpoints in about a megabyte; the `SCRIPTS` draw them on a canvas. A study too large
for one file is thinned, first by checkpoints and then by records, and `Shown.note` states what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.dynamics.grid import cell_names, first_exposed_epoch
from leakscope.dynamics.plane import Trajectories
from leakscope.hardness.registry import measure_label
from leakscope.report.charts import script_json
from leakscope.report.embed import Embeddable
from leakscope.report.page import asset
from leakscope.report.templates import template
from leakscope.studies.dynamics.records import RunRecords
from leakscope.studies.dynamics.results import Series

SCRIPTS = ("plane_cloud.js", "plane_records.js", "plane.js")
"""Files in assets/ that the plane needs, in this order."""
MOST_STATES = 3_200_000
"""Records times checkpoints on one page, all runs together: at most 9 MB of a file of 15 MB."""
MOST_CHARACTERS = 200
"""Longest id or label; the rest becomes an ellipsis."""
_FEWEST_CHECKPOINTS = 20
_MOST_LEVELS = 256
_UNKNOWN = 255


@dataclass(frozen=True, eq=False)
class PlaneRun:
    """One run on the plane.

    Attributes:
        records: its records.
        n_models: number of models; rates are shares of about half of them.
        floor: noise floor of the share of records in the corner, per checkpoint.
        ids: str or object (records,), as the page displays them.
        labels: str or object (records,).
    """

    records: RunRecords
    n_models: int
    floor: Series
    ids: AnyArray
    labels: AnyArray


class Shown(NamedTuple):
    """The checkpoints and records on the page, as indices, and a note where some are missing."""

    checkpoints: IntArray
    records: IntArray
    note: str


class Plane(NamedTuple):
    """The markup of the plane, the arrays its scripts read, and notes on what is missing."""

    body: Markup
    arrays: dict[str, Embeddable]
    left_out: list[str]


def plane(runs: Sequence[PlaneRun], side: int) -> Plane:
    """One plane for all runs of a study; `side` is that of the grid whose corner is called vulnerable."""
    arrays: dict[str, Embeddable] = {}
    about, left_out = [], []
    for k, run in enumerate(runs):
        shown = shown_part(run.records.paths, MOST_STATES // len(runs))
        label_names, label_codes = np.unique(_cut(run.labels[shown.records]), return_inverse=True)
        arrays |= {f"plane{k}-{name}": values for name, values in _arrays(run, shown).items()}
        arrays[f"plane{k}-labels"] = label_codes.astype(np.int64)
        about.append({**_about(run, shown), "labels": label_names.tolist()})
        left_out += (
            [f"{run.records.name}: {shown.note}" if len(runs) > 1 else shown.note] if shown.note else []
        )
    body = template(
        "plane.html.j2",
        style=Markup(asset("plane.css")),
        about=script_json({"side": side, "runs": about}),
        runs=[run.records.name for run in runs],
        n_checkpoints=len(about[0]["epochs"]),
        cells=cell_names(side),
        side=side,
    )
    return Plane(body, arrays, left_out)


def shown_part(paths: Trajectories, most_states: int) -> Shown:
    """Judged records and checkpoints, thinned evenly to `most_states`.

    The first and the last checkpoint always stay. Half of the records on a thinned page are those with the
    highest advantage at the end.
    """
    records, n_checkpoints = np.flatnonzero(paths.is_defined), len(paths.epochs)
    affordable = max(_FEWEST_CHECKPOINTS, most_states // max(1, len(records)))
    n_shown = min(n_checkpoints, affordable)
    checkpoints = np.unique(np.linspace(0, n_checkpoints - 1, n_shown).round().astype(np.int64))
    parts = [] if n_shown == n_checkpoints else [f"{n_shown} of {n_checkpoints} checkpoints"]
    n_records, most_records = len(records), max(1, most_states // len(checkpoints))
    if n_records > most_records:
        by_exposure = records[np.argsort(-paths.advantage[-1, records], kind="stable")]
        top, rest = np.split(by_exposure, [most_records // 2])
        thinned = rest[np.linspace(0, len(rest) - 1, most_records - len(top)).round().astype(np.int64)]
        records = np.sort(np.concatenate([top, thinned]))
        parts.append(
            f"{len(records):,} of {n_records:,} records (the most exposed, and an even sample of the rest)"
        )
    note = f"The plane contains {' and '.join(parts)}, to limit the size of the file." if parts else ""
    return Shown(checkpoints, records, note)


def _arrays(run: PlaneRun, shown: Shown) -> dict[str, Embeddable]:
    paths, vulnerable, hardness = run.records.paths, run.records.vulnerable, run.records.hardness
    states = paths.states[shown.checkpoints][:, shown.records]  # (checkpoints, records, 2)
    levels, codes = coded(states)
    first = first_exposed_epoch(vulnerable[:, shown.records], paths.epochs)
    arrays: dict[str, Embeddable] = {
        "levels": levels,
        "fpr": codes[..., 0],
        "tpr": codes[..., 1],
        "ids": _cut(run.ids[shown.records]),
        "vulnerable": vulnerable[-1, shown.records],
        "first": np.where(np.isnan(first), -1, first).astype(np.int64),
    }
    if hardness:
        arrays["hardness"] = np.stack([_percentiles(values)[shown.records] for values in hardness.values()])
    return arrays


def coded(states: FloatArray) -> tuple[FloatArray, AnyArray]:
    """The rates that occur, in ascending order, and the index of each state's rates among them, uint8.

    More than 256 different rates are rounded to an even scale from 0 to 1, with an error of at most 0.2%.
    """
    levels, codes = np.unique(states, return_inverse=True)
    if len(levels) > _MOST_LEVELS:
        levels = np.linspace(0, 1, _MOST_LEVELS)
        codes = np.rint(states * (_MOST_LEVELS - 1))
    return levels, codes.reshape(states.shape).astype(np.uint8)


def _percentiles(values: FloatArray) -> AnyArray:
    """For each record the percentage of records that are less hard; 255 where undefined."""
    defined = np.isfinite(values)
    ordered = np.sort(values[defined])
    below = np.searchsorted(ordered, np.where(defined, values, 0.0))
    share = np.floor(100 * below / max(1, len(ordered)))
    return np.where(defined, share, _UNKNOWN).astype(np.uint8)


def _about(run: PlaneRun, shown: Shown) -> dict[str, Any]:
    """What the scripts need to know about a run besides its arrays."""
    paths, vulnerable = run.records.paths, run.records.vulnerable
    return {
        "name": run.records.name,
        "models": run.n_models,
        "epochs": [paths.epochs[t] for t in shown.checkpoints],
        "records": len(shown.records),
        "vulnerable": vulnerable[:, paths.is_defined].mean(axis=1)[shown.checkpoints],
        "chance": [run.floor[t] for t in shown.checkpoints],
        "centre": paths.defined().states.mean(axis=1)[shown.checkpoints],
        "measures": [measure_label(name) for name in run.records.hardness],
    }


def _cut(texts: AnyArray) -> npt.NDArray[np.str_]:
    """Texts of at most 200 characters."""
    if texts.dtype.kind == "U" and texts.dtype.itemsize <= 4 * MOST_CHARACTERS:
        return texts
    return np.array(
        [t if len(t) <= MOST_CHARACTERS else f"{t[: MOST_CHARACTERS - 1]}…" for t in texts.tolist()]
    )
