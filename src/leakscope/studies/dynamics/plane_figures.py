"""The dynamics study's figures on the plane: the records, and the paths of a few."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.report.png import COLOURS, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakscope.array_types import FloatArray
    from leakscope.studies.dynamics.records import RunRecords
    from leakscope.studies.dynamics.results import RunResults

FLOOR = "#888888"
_MOST_PANELS = 4
_PATHS = 6


def numbers(values: Any) -> FloatArray:
    """A figure of the results as an array; None becomes NaN."""
    return np.array(values, dtype=np.float64)


def draw_planes(run: RunResults, records: RunRecords, side: int, path: Path) -> None:
    """Density of the records at up to four epochs; a cell is one value of FPR and TPR where models allow."""
    states, epochs = records.paths.defined().states, run.epochs
    checkpoints = _spaced(len(epochs))
    edges = _density_edges(run.population.models)
    counts = [np.histogram2d(states[t, :, 1], states[t, :, 0], bins=[edges, edges])[0] for t in checkpoints]
    shares = [100 * c / states.shape[1] for c in counts]
    largest = max(float(share.max()) for share in shares)
    vulnerable = 100 * numbers(run.figures.vulnerable.value)
    with figure(path, 0.9 + 3.1 * len(checkpoints), 3.7, panels=(1, len(checkpoints))) as panels:
        all_axes = panels if isinstance(panels, list) else [panels]
        for axes, t, values in zip(all_axes, checkpoints, shares, strict=True):
            mesh = _density(axes, edges, values, largest)
            _plane(axes, side)
            axes.set_title(f"epoch {epochs[t]}: {vulnerable[t]:.1f}% vulnerable")
        for axes in all_axes[1:]:
            axes.set_ylabel("")
        bar = all_axes[-1].figure.colorbar(mesh, ax=all_axes, shrink=0.85)
        bar.set_label(f"% of {states.shape[1]:,} records")


def _density_edges(n_models: int) -> FloatArray:
    """Edges of the density's cells, centered on the rates that half of the models can take."""
    n = min(20, max(4, n_models // 2))
    edges: FloatArray = (np.arange(n + 2) - 0.5) / n
    return edges


def _density(axes: Axes, edges: FloatArray, values: FloatArray, largest: float) -> Any:
    from matplotlib.colors import PowerNorm

    occupied = np.where(values > 0, values, np.nan)
    return axes.pcolormesh(edges, edges, occupied, cmap="viridis_r", norm=PowerNorm(0.5, 0, largest))


def _plane(axes: Axes, side: int) -> None:
    """Axes of the plane, the diagonal of guessing and the vulnerable corner."""
    from matplotlib.patches import Rectangle

    axes.plot([0, 1], [0, 1], color=FLOOR, linewidth=0.9, linestyle="--")
    corner = Rectangle((0, 1 - 1 / side), 1 / side, 1 / side, fill=False, color=COLOURS[1], linewidth=1.6)
    axes.add_patch(corner)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06), aspect="equal", xlabel="FPR", ylabel="TPR")
    axes.grid(False)


def draw_paths(records: RunRecords, side: int, path: Path) -> None:
    """The most exposed records: their paths over the plane, and their advantage over epochs."""
    paths = records.paths.defined()
    advantage, epochs = paths.advantage, paths.epochs
    # Many records end with the same advantage; ties go to the larger mean over training.
    most_exposed = np.lexsort((-advantage.mean(axis=0), -advantage[-1]))[:_PATHS]
    with figure(path, 10.4, 4.6, panels=(1, 2)) as (plane, over_time):
        _plane(plane, side)
        for k, (record, colour) in enumerate(zip(most_exposed, COLOURS, strict=False)):
            # Rates are multiples of one over the number of models; the offset separates equal paths.
            way = paths.states[:, record] + 0.008 * (k - len(most_exposed) / 2)
            plane.plot(*way.T, color=colour, linewidth=1.1, alpha=0.8)
            plane.plot(*way[0], color=colour, marker="o", mfc="white", markersize=6)
            plane.plot(*way[-1], color=colour, marker="o", markersize=7)
            over_time.plot(epochs, advantage[:, record], color=colour, linewidth=1.0, alpha=0.8)
        plane.set_title(f"The {len(most_exposed)} most exposed (open: epoch {epochs[0]}, full: {epochs[-1]})")
        _draw_means(over_time, records, advantage)
        over_time.set(xlabel="epoch", ylabel="advantage (TPR - FPR)", title="Their advantage over training")


def _draw_means(axes: Axes, records: RunRecords, advantage: FloatArray) -> None:
    finally_in = records.vulnerable[-1, records.paths.is_defined]
    groups = {"finally vulnerable, mean": finally_in, "all others, mean": ~finally_in}
    for (label, mask), style in zip(groups.items(), ("-", ":"), strict=True):
        if mask.any():
            axes.plot(records.paths.epochs, advantage[:, mask].mean(axis=1), color="black", linewidth=2.2,
                      linestyle=style, label=f"{label} ({int(mask.sum()):,} records)")  # fmt: skip
    axes.legend(fontsize=8, loc="lower right")


def _spaced(n: int) -> list[int]:
    """Up to four evenly spaced checkpoints, first and last included."""
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, _MOST_PANELS))})
