"""The vulnerability plane of report.html: every record at every checkpoint, to move through, brush and click.

Rates are shares of a few models, so only few values occur: a table of them and one byte a rate hold 50,000
records at 20 checkpoints in about a megabyte. The `SCRIPTS` draw them on a canvas. A study too large for one
file is shown in part, and `Shown.words` says which: checkpoints go first, then records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.dynamics.early_exposure import first_exposed_epoch
from leakscope.dynamics.grid import cell_names
from leakscope.dynamics.plane import Trajectories
from leakscope.report.charts import script_json
from leakscope.report.embed import Embeddable
from leakscope.report.page import asset
from leakscope.report.templates import template

SCRIPTS = ("plane_cloud.js", "plane_records.js", "plane.js")
"""Files in assets/ that a page with a plane needs, in this order."""
MOST_STATES = 3_200_000
"""Records times checkpoints on one page, all runs together: within 9 MB of a 15 MB file at the worst."""
MOST_CHARACTERS = 200
"""Of an id or a label; the rest is cut off, and an ellipsis says so."""
_FEWEST_CHECKPOINTS = 20
_MOST_LEVELS = 256
_UNKNOWN = 255


@dataclass(frozen=True, eq=False)
class PlaneRun:
    """One run on the plane.

    Attributes:
        name: of the run.
        n_models: of its population; rates are shares of about half of them.
        paths: every record's path.
        vulnerable: bool (checkpoints, records), in the corner.
        by_chance: share of the records in the corner at each checkpoint by the noise floor; may hold None.
        ids: str or object (records,), as the page is to show them.
        labels: str or object (records,).
        hardness: measure -> float (records,), high means hard.
    """

    name: str
    n_models: int
    paths: Trajectories
    vulnerable: BoolArray
    by_chance: Sequence[float | None]
    ids: AnyArray
    labels: AnyArray
    hardness: dict[str, FloatArray]


class Shown(NamedTuple):
    """The part of a run that is on the page, as indices, and in words where it is not all of it."""

    checkpoints: IntArray
    records: IntArray
    words: str


class Plane(NamedTuple):
    """The plane's markup, the arrays its script reads, and what is left out, one sentence a run."""

    body: Markup
    arrays: dict[str, Embeddable]
    left_out: list[str]


def plane(runs: Sequence[PlaneRun], side: int) -> Plane:
    """One plane for all runs of a study.

    Args:
        runs: at least one.
        side: cells on a side of the grid whose corner is vulnerable.
    """
    arrays: dict[str, Embeddable] = {}
    about, left_out = [], []
    for k, run in enumerate(runs):
        shown = shown_part(run.paths, MOST_STATES // len(runs))
        label_names, label_codes = np.unique(_cut(run.labels[shown.records]), return_inverse=True)
        arrays |= {f"plane{k}-{name}": values for name, values in _arrays(run, shown).items()}
        arrays[f"plane{k}-labels"] = label_codes.astype(np.int64)
        about.append({**_about(run, shown), "labels": label_names.tolist()})
        left_out += [f"{run.name}: {shown.words}" if len(runs) > 1 else shown.words] if shown.words else []
    body = template(
        "plane.html.j2",
        style=Markup(asset("plane.css")),
        about=script_json({"side": side, "runs": about}),
        runs=[run.name for run in runs],
        n_checkpoints=len(about[0]["epochs"]),
        cells=cell_names(side),
        side=side,
    )
    return Plane(body, arrays, left_out)


def shown_part(paths: Trajectories, most_states: int) -> Shown:
    """Judged records and checkpoints, thinned evenly to `most_states`; first and last checkpoint stay.

    The records with the highest advantage at the end stay too, half of the page's; others are thinned.
    """
    records, n_checkpoints = np.flatnonzero(paths.is_defined), len(paths.epochs)
    affordable = max(_FEWEST_CHECKPOINTS, most_states // max(1, len(records)))
    n_kept = min(n_checkpoints, affordable)
    checkpoints = np.unique(np.linspace(0, n_checkpoints - 1, n_kept).round().astype(np.int64))
    words = [] if n_kept == n_checkpoints else [f"{n_kept} of {n_checkpoints} checkpoints"]
    n_records, most_records = len(records), max(1, most_states // len(checkpoints))
    if n_records > most_records:
        by_exposure = records[np.argsort(-paths.advantage[-1, records], kind="stable")]
        top, rest = np.split(by_exposure, [most_records // 2])
        thinned = rest[np.linspace(0, len(rest) - 1, most_records - len(top)).round().astype(np.int64)]
        records = np.sort(np.concatenate([top, thinned]))
        words.append(
            f"{len(records):,} of {n_records:,} records (the most exposed, and an even part of the rest)"
        )
    sentence = f"The plane shows {' and '.join(words)}, to keep the file small." if words else ""
    return Shown(checkpoints, records, sentence)


def _arrays(run: PlaneRun, shown: Shown) -> dict[str, Embeddable]:
    states = run.paths.states[shown.checkpoints][:, shown.records]  # (checkpoints, records, 2)
    levels, codes = coded(states)
    first = first_exposed_epoch(run.vulnerable[:, shown.records], run.paths.epochs)
    arrays: dict[str, Embeddable] = {
        "levels": levels,
        "fpr": codes[..., 0],
        "tpr": codes[..., 1],
        "ids": _cut(run.ids[shown.records]),
        "vulnerable": run.vulnerable[-1, shown.records],
        "first": np.where(np.isnan(first), -1, first).astype(np.int64),
    }
    if run.hardness:
        arrays["hardness"] = np.stack(
            [_percentiles(values)[shown.records] for values in run.hardness.values()]
        )
    return arrays


def coded(states: FloatArray) -> tuple[FloatArray, AnyArray]:
    """The rates that occur, rising, and each state's index among them, uint8 of the states' shape.

    With more than 256 different rates, those of an even scale from 0 to 1 stand for them, off by 0.2%.
    """
    levels, codes = np.unique(states, return_inverse=True)
    if len(levels) > _MOST_LEVELS:
        levels = np.linspace(0, 1, _MOST_LEVELS)
        codes = np.rint(states * (_MOST_LEVELS - 1))
    return levels, codes.reshape(states.shape).astype(np.uint8)


def _percentiles(values: FloatArray) -> AnyArray:
    """Of each record, the share of the records that are less hard, in percent; 255 where undefined."""
    defined = np.isfinite(values)
    ordered = np.sort(values[defined])
    below = np.searchsorted(ordered, np.where(defined, values, 0.0))
    share = np.floor(100 * below / max(1, len(ordered)))
    return np.where(defined, share, _UNKNOWN).astype(np.uint8)


def _about(run: PlaneRun, shown: Shown) -> dict[str, Any]:
    """What the script must know of a run beside its arrays."""
    judged = run.paths.defined().states
    return {
        "name": run.name,
        "models": run.n_models,
        "epochs": [run.paths.epochs[t] for t in shown.checkpoints],
        "records": len(shown.records),
        "vulnerable": run.vulnerable[:, run.paths.is_defined].mean(axis=1)[shown.checkpoints],
        "chance": [run.by_chance[t] for t in shown.checkpoints],
        "centre": judged.mean(axis=1)[shown.checkpoints],
        "measures": [name.replace("_", " ") for name in run.hardness],
    }


def _cut(texts: AnyArray) -> npt.NDArray[np.str_]:
    """Texts of at most 200 characters."""
    if texts.dtype.kind == "U" and texts.dtype.itemsize <= 4 * MOST_CHARACTERS:
        return texts
    return np.array(
        [t if len(t) <= MOST_CHARACTERS else f"{t[: MOST_CHARACTERS - 1]}…" for t in texts.tolist()]
    )
