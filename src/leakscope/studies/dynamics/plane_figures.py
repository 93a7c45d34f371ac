"""The dynamics study's figures on the plane: where records are, the ways of a few, the centre of mass."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.report.figures import COLOURS, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakscope.array_types import FloatArray
    from leakscope.studies.dynamics.judge import JudgedRun

FLOOR = "#888888"
_MOST_PANELS = 4
_N_SHOWN = 6


def draw_planes(run: JudgedRun, path: Path) -> None:
    """Where the records are at some epochs; a cell is one value of FPR and TPR, as far as models allow."""
    states, epochs = run.paths.defined().states, run.paths.epochs
    chosen = _chosen(len(epochs))
    ends = _cell_ends(run)
    counts = [np.histogram2d(states[t, :, 1], states[t, :, 0], bins=[ends, ends])[0] for t in chosen]
    share = [100 * c / states.shape[1] for c in counts]
    top = max(float(s.max()) for s in share)
    with figure(path, 0.9 + 3.1 * len(chosen), 3.7, panels=(1, len(chosen))) as panels:
        all_axes = panels if isinstance(panels, list) else [panels]
        for axes, t, values in zip(all_axes, chosen, share, strict=True):
            mesh = _density(axes, ends, values, top)
            _plane(axes, grid_side(run))
            axes.set_title(f"epoch {epochs[t]}: {100 * run.found.vulnerable[t]:.1f}% vulnerable")
        for axes in all_axes[1:]:
            axes.set_ylabel("")
        bar = all_axes[-1].figure.colorbar(mesh, ax=all_axes, shrink=0.85)
        bar.set_label(f"% of {states.shape[1]:,} records")


def _cell_ends(run: JudgedRun) -> FloatArray:
    """Ends of the density's cells, centred on the rates that half of the models can take."""
    n = min(20, max(4, run.result["population"]["models"] // 2))
    ends: FloatArray = (np.arange(n + 2) - 0.5) / n
    return ends


def _density(axes: Axes, ends: FloatArray, values: FloatArray, top: float) -> Any:
    from matplotlib.colors import PowerNorm

    shown = np.where(values > 0, values, np.nan)
    return axes.pcolormesh(ends, ends, shown, cmap="viridis_r", norm=PowerNorm(0.5, 0, top))


def _plane(axes: Axes, side: int) -> None:
    """Axes of the plane, the diagonal of guessing and the vulnerable corner."""
    from matplotlib.patches import Rectangle

    axes.plot([0, 1], [0, 1], color=FLOOR, linewidth=0.9, linestyle="--")
    corner = Rectangle((0, 1 - 1 / side), 1 / side, 1 / side, fill=False, color=COLOURS[1], linewidth=1.6)
    axes.add_patch(corner)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06), aspect="equal", xlabel="FPR", ylabel="TPR")
    axes.grid(False)


def draw_paths(run: JudgedRun, path: Path) -> None:
    """The most exposed records: their way over the plane, and their advantage over epochs."""
    paths = run.paths.defined()
    advantage, epochs = paths.advantage, paths.epochs
    # Many end with the same advantage: of those, the ones that had most of it all along.
    shown = np.lexsort((-advantage.mean(axis=0), -advantage[-1]))[:_N_SHOWN]
    with figure(path, 10.4, 4.6, panels=(1, 2)) as (plane, over_time):
        _plane(plane, grid_side(run))
        for k, (record, colour) in enumerate(zip(shown, run_colours(len(shown)), strict=True)):
            # Rates are multiples of one over the models, so paths are drawn a little apart.
            way = paths.states[:, record] + 0.008 * (k - len(shown) / 2)
            plane.plot(*way.T, color=colour, linewidth=1.1, alpha=0.8)
            plane.plot(*way[0], color=colour, marker="o", mfc="white", markersize=6)
            plane.plot(*way[-1], color=colour, marker="o", markersize=7)
            over_time.plot(epochs, advantage[:, record], color=colour, linewidth=1.0, alpha=0.8)
        plane.set_title(f"The {len(shown)} most exposed (open: epoch {epochs[0]}, full: {epochs[-1]})")
        _draw_medians(over_time, run, advantage)
        over_time.set(xlabel="epoch", ylabel="advantage (TPR - FPR)", title="Their advantage over training")


def _draw_medians(axes: Axes, run: JudgedRun, advantage: FloatArray) -> None:
    epochs = run.paths.epochs
    finally_in = run.vulnerable[-1, run.paths.is_defined]
    groups = {"finally vulnerable, mean": finally_in, "all others, mean": ~finally_in}
    for (label, mask), style in zip(groups.items(), ("-", ":"), strict=True):
        if mask.any():
            label = f"{label} ({int(mask.sum()):,} records)"
            axes.plot(
                epochs,
                advantage[:, mask].mean(axis=1),
                color="black",
                linewidth=2.2,
                linestyle=style,
                label=label,
            )
    axes.legend(fontsize=8, loc="lower right")


def draw_centre(run: JudgedRun, path: Path) -> None:
    """The centre of mass's way, with the epochs along it, and the noise floor's."""
    centre, floor, epochs = run.found.centre, run.floor.mean.centre, run.paths.epochs
    with figure(path, 5.6, 5.0) as axes:
        axes.plot(*floor.T, color=FLOOR, marker="o", markersize=3, label="noise floor")
        axes.plot(*centre.T, color=COLOURS[0], marker="o", markersize=4, label="measured")
        both = np.concatenate([centre, floor])
        reach = frame_square(axes, both)
        for t in _apart(centre, 0.15 * reach):
            axes.annotate(
                f"epoch {epochs[t]}", centre[t], xytext=(-8, 0), textcoords="offset points", fontsize=8,
                ha="right", va="center",
            )  # fmt: skip
        axes.axline((0.5, 0.5), slope=1, color=FLOOR, linewidth=0.9, linestyle="--")
        axes.set(xlabel="mean FPR", ylabel="mean TPR")
        axes.set_title(
            f"Centre of mass: moves {run.found.net_displacement:.1f}% of the side\n"
            f"(path {run.found.path_length:.1f}%; by chance {run.floor.mean.net_displacement:.1f}%, "
            f"path {run.floor.mean.path_length:.1f}%)"
        )
        axes.legend(fontsize=8, loc="lower left")


def frame_square(axes: Axes, points: FloatArray) -> float:
    """Limits of a square around the points, (points, 2); returns half its side."""
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    reach = float(np.ptp(points, axis=0).max()) * 0.62 + 0.02
    axes.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
    axes.set_aspect("equal")
    return reach


def _apart(points: FloatArray, distance: float) -> list[int]:
    """Last, first and between, as far as their labels do not meet."""
    n = len(points)
    placed: list[int] = []
    for t in dict.fromkeys([n - 1, 0, *_chosen(n)]):
        if all(np.abs(points[t] - points[other]).max() > distance for other in placed):
            placed.append(t)
    return placed


def grid_side(run: JudgedRun) -> int:
    """Cells on a side of the run's grid."""
    return math.isqrt(len(run.result["transitions"]["cells"]))


def _chosen(n: int) -> list[int]:
    """Up to four checkpoints: first, last and between, evenly."""
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, _MOST_PANELS))})


def run_colours(n: int) -> list[str]:
    """One colour a line, from the common palette."""
    return [COLOURS[k % len(COLOURS)] for k in range(n)]
