"""The leakage study's figures: boxes of advantage with a line of leakage, and the chain of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.report.figures import COLOURS, MARKERS, figure
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.report import number
from leakscope.studies.leakage.results import Leakage, LeakageResults, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHAIN = {
    "advantage": "threshold adversary",
    "likelihood_ratio": "likelihood-ratio adversary",
    "total_variation": "total variation",
    "pinsker": "Pinsker",
    "bretagnolle_huber": "Bretagnolle-Huber",
    "farokhi_kaafar": "Farokhi-Kaafar, √ρ_KL / 2",
}
"""Field of `BoundChain` -> its label, from tight to loose."""


def write_figures(results: LeakageResults, folder: Path) -> None:
    """Writes one PNG per figure, and one with the chains of bounds of all figures."""
    for name in results.figures:
        with figure(folder / f"figure_{name}.png", 7.2, 4.4) as axes:
            _two_axes(axes, results, name)
    n_figures = len(results.figures)
    rows, columns = (1, n_figures) if n_figures < 3 else (2, (n_figures + 1) // 2)
    with figure(folder / "bounds.png", 4.6 * columns + 1, 4.0 * rows, panels=(rows, columns)) as panels:
        flat = panels if isinstance(panels, list) else [panels]
        for axes, name in zip(flat, results.figures, strict=False):
            _bounds(axes, name, results.figures[name].points)
        for axes in flat[n_figures:]:
            axes.axis("off")
        if len(flat) > n_figures:
            flat[-1].legend(*flat[0].get_legend_handles_labels(), loc="center", fontsize=9)
        else:
            flat[0].legend(fontsize=7)


def _two_axes(axes: Axes, results: LeakageResults, name: int) -> None:
    """Boxes of advantage on the left, leakage on the right."""
    points, config = results.figures[name].points, results.config
    _boxes(axes, points)
    axes.set_xlabel(FIGURES[name].axis)
    n_records = config.records_of(name)
    axes.set_ylabel(
        f"advantage of the threshold adversary\n(boxes over {n_records} records)", color=COLOURS[0]
    )
    axes.set_ylim(bottom=-0.04 * axes.get_ylim()[1])  # keeps a box at 0 visible
    axes.set_title(f"Figure {name}. {FIGURES[name].title}")
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.grid(False)
    rho = [p.rho_kl for p in points]
    fine = [p.rho_kl_finite_precision for p in points if p.rho_kl_finite_precision]
    _mean_line(right, rho, f"{'continuous ' if fine else ''}leakage (mean, 95% interval)", 1)
    right.plot(*_defined([one.median for one in rho]), ":", color=COLOURS[1], linewidth=1.2,
               label="leakage (median record)")  # fmt: skip
    if fine:
        _mean_line(right, fine, f"at precision {config.precision}", 2)
    right.plot(*_defined([one.floor for one in rho]), "--", color="#777777", linewidth=1.2,
               label="bias, subtracted (floor)")  # fmt: skip
    _scale(right, [*rho, *fine])
    of_what = "output" if name == NETWORK else "parameters"
    right.set_ylabel(f"leakage of the {of_what}, ρ_KL (nats)", color=COLOURS[1])
    right.legend(fontsize=8, loc="best")


def _boxes(axes: Axes, points: Sequence[Point]) -> None:
    boxes = [p.advantage.box for p in points]
    drawn = [{"q1": box.q1, "med": box.median, "q3": box.q3, "whislo": box.whisker_low,
              "whishi": box.whisker_high, "fliers": box.outliers} for box in boxes]  # fmt: skip
    at, blue = list(range(len(points))), {"color": COLOURS[0]}
    axes.bxp(drawn, positions=at, widths=0.5, patch_artist=True, medianprops=blue, whiskerprops=blue,
             capprops=blue, boxprops={"facecolor": "#d9e8f3", "edgecolor": COLOURS[0]},
             flierprops={"markersize": 3, "markeredgecolor": COLOURS[0]})  # fmt: skip
    axes.set_xticks(at, [number(p.value) for p in points])


def _mean_line(right: Axes, leakage: Sequence[Leakage], label: str, k: int) -> None:
    right.plot(*_defined([one.mean for one in leakage]), color=COLOURS[k], marker="os"[k - 1], markersize=5,
               label=label)  # fmt: skip
    at, low = _defined([one.mean_low for one in leakage])
    _, high = _defined([one.mean_high for one in leakage])
    right.vlines(at, low, high, color=COLOURS[k], linewidth=1.4)


def _defined(values: Sequence[float | None]) -> tuple[list[int], list[float]]:
    """Positions and values of those that are defined."""
    defined = [(i, value) for i, value in enumerate(values) if value is not None]
    return [i for i, _ in defined], [value for _, value in defined]


def _scale(right: Axes, leakage: Sequence[Leakage]) -> None:
    """Logarithmic; where something is at or below 0, linear up to the smallest mean."""
    drawn = [end for one in leakage for end in (one.mean, one.mean_low, one.median) if end is not None]
    means = [abs(one.mean) for one in leakage if one.mean]
    if not means:
        return
    if min(drawn) <= 0:
        right.set_yscale("symlog", linthresh=max(min(means), 1e-6 * max(means)))
    else:
        right.set_yscale("log")


def _bounds(axes: Axes, name: int, points: Sequence[Point]) -> None:
    at = list(range(len(points)))
    for (field, label), colour, marker in zip(CHAIN.items(), COLOURS, MARKERS, strict=False):
        values = [getattr(p.chain, field) for p in points]
        axes.plot(at, values, color=colour, marker=marker, markersize=4, label=label)
    axes.set_xticks(at, [number(p.value) for p in points], fontsize=8)
    axes.set_xlabel(FIGURES[name].short_axis)
    axes.set_ylabel("advantage, mean over records")
    axes.set_ylim(0, 1.05)
    axes.set_title(f"Points of figure {name}")
