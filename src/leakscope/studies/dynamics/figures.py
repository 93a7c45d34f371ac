"""The dynamics study's figures: everything over epochs, moves between cells, hardness, comparison of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakscope.hardness.registry import measure_label
from leakscope.report.figures import COLOURS, figure
from leakscope.studies.dynamics.plane_figures import (
    FLOOR,
    draw_centre,
    draw_paths,
    draw_planes,
    frame_square,
    grid_side,
    numbers,
    run_colours,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakscope.studies.dynamics.figure_types import SeriesFigure
    from leakscope.studies.dynamics.records import RunRecords
    from leakscope.studies.dynamics.results import HardnessFigures, RunResults

_MOST_POINTS = 3000
_MOST_MEASURES = 8


def draw_run(run: RunResults, records: RunRecords, folder: Path) -> list[str]:
    """Draws all figures of one run; returns the names of the files."""
    drawings = {"plane.png": draw_planes}
    if len(run.epochs) > 1:
        drawings |= _OVER_TRAINING
    if run.hardness:
        drawings["hardness.png"] = _draw_hardness
    for name, draw in drawings.items():
        draw(run, records, folder / name)
    return list(drawings)


def draw_comparison(runs: Mapping[str, RunResults], path: Path) -> None:
    """Vulnerable records, entropy and center of mass, one line per run; noise floors are dotted."""
    from matplotlib.ticker import MaxNLocator

    with figure(path, 12.6, 4.4, panels=(1, 3)) as panels:
        for (name, run), colour in zip(runs.items(), run_colours(len(runs)), strict=True):
            _draw_compared(panels, name, run, colour)
        panels[0].set(
            xlabel="epoch", ylabel="records in the vulnerable corner (%)", title="Vulnerable records"
        )
        panels[0].set_ylim(0, 1.3 * panels[0].get_ylim()[1])  # room for the legend
        panels[0].legend(fontsize=8, loc="upper left")
        panels[1].set(xlabel="epoch", ylabel="spatial entropy (bits)", title="Spread (dotted: noise floors)")
        for axes in panels[:2]:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[2].axline((0.5, 0.5), slope=1, color=FLOOR, linewidth=0.9, linestyle="--")
        panels[2].set(xlabel="mean FPR", ylabel="mean TPR", title="Center of mass (large: at the end)")
        centres = [numbers(run.figures.centre.value) for run in runs.values()]
        frame_square(panels[2], np.concatenate(centres))


def _draw_compared(panels: list[Axes], name: str, run: RunResults, colour: str) -> None:
    figures = run.figures
    for axes, series, scale in ((panels[0], figures.vulnerable, 100), (panels[1], figures.entropy, 1)):
        label = name if series is figures.vulnerable else None
        measured, floor = (scale * numbers(values) for values in (series.value, series.floor.mean))
        axes.plot(run.epochs, measured, color=colour, marker="o", markersize=3, label=label)
        axes.plot(run.epochs, floor, color=colour, linewidth=1, linestyle=":")
    centre = numbers(figures.centre.value)
    panels[2].plot(*centre.T, color=colour, marker="o", markersize=2.5)
    panels[2].plot(*centre[-1], color=colour, marker="o", markersize=7)


def _draw_over_epochs(run: RunResults, records: RunRecords, path: Path) -> None:
    """Advantage, vulnerable records, entropy and entry, each with standard error and noise floor."""
    figures = run.figures
    drawn = (
        (figures.advantage, 1, "mean advantage (TPR - FPR)", "Advantage"),
        (figures.vulnerable, 100, "records (%)", "In the vulnerable corner"),
        (figures.entropy, 1, "spatial entropy (bits)", "Spread over the plane"),
        (figures.entry_per_epoch, 100, "probability per epoch (%)", "Entering the vulnerable corner"),
    )
    with figure(path, 10.4, 7.0, panels=(2, 2)) as panels:
        for axes, (series, scale, label, title) in zip(panels, drawn, strict=True):
            _line_with_floor(axes, series, run.epochs[-len(series.value) :], scale)
            axes.set(xlabel="epoch", ylabel=label, title=title)
        panels[0].legend(fontsize=8)


def _line_with_floor(axes: Axes, series: SeriesFigure, epochs: tuple[int, ...], scale: float) -> None:
    floor = series.floor
    value, error, low, mean, high = (
        scale * numbers(part)
        for part in (series.value, series.standard_error, floor.low, floor.mean, floor.high)
    )
    axes.fill_between(epochs, low, high, color=FLOOR, alpha=0.3, linewidth=0)
    axes.plot(epochs, mean, color=FLOOR, linewidth=1.2, label="noise floor, mean and range")
    axes.fill_between(epochs, value - error, value + error, color=COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(epochs, value, color=COLOURS[0], marker="o", markersize=3, label="measured ± standard error")


def _draw_transitions(run: RunResults, records: RunRecords, path: Path) -> None:
    """Where the records of each cell are at the next checkpoint, over all of training."""
    from matplotlib.patches import Rectangle

    moves, side = run.transitions, grid_side(run)
    shares, counts = numbers(moves.overall), np.array(moves.counts).sum(axis=(0, 2))
    names = [name.replace("FPR ", "").replace(", TPR ", " / ") for name in moves.cells]
    with figure(path, 7.8, 6.4) as axes:
        axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
        for i, j in np.ndindex(shares.shape if side <= 4 else (0, 0)):
            if not np.isnan(shares[i, j]) and shares[i, j] >= 0.005:
                colour = "white" if shares[i, j] > 0.55 else "black"
                axes.text(
                    j, i, f"{100 * shares[i, j]:.0f}", ha="center", va="center", fontsize=8, color=colour
                )
        corner = Rectangle((side - 1.5, -0.5), 1, len(shares), fill=False, color=COLOURS[1], linewidth=1.8)
        axes.add_patch(corner)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
        labels = [f"{name}  (n = {n:,})" for name, n in zip(names, counts, strict=True)]
        axes.set_yticks(range(len(names)), labels, fontsize=8)
        axes.set(xlabel="at the next checkpoint: FPR / TPR", ylabel="at a checkpoint: FPR / TPR")
        axes.set_title("Moves between cells, % of each row's records (outlined: vulnerable)")
        axes.grid(False)


def _draw_early(run: RunResults, records: RunRecords, path: Path) -> None:
    """Recall and precision of each checkpoint's vulnerable records with respect to the last one's."""
    epochs, figures = run.epochs, run.figures
    with figure(path, 6.4, 4.4) as axes:
        for series, colour, label in (
            (figures.recall, COLOURS[0], "of the finally vulnerable, already vulnerable"),
            (figures.precision, COLOURS[1], "of the vulnerable, still vulnerable at the end"),
        ):
            measured, floor = (100 * numbers(values) for values in (series.value, series.floor.mean))
            axes.plot(epochs, measured, color=colour, marker="o", markersize=3, label=label)
            axes.plot(epochs, floor, color=colour, linewidth=1, linestyle=":")
        axes.axhline(70, color=FLOOR, linewidth=0.9, linestyle="--")
        axes.plot([], [], color="black", linewidth=1, linestyle=":", label="noise floor of each")
        axes.set(xlabel="epoch", ylabel="records (%)", ylim=(0, 103))
        first = figures.first_epoch.value
        reached = "" if first is None else f" (70% by epoch {first:.0f} of {epochs[-1]})"
        axes.set_title(f"How early the finally vulnerable are in the corner{reached}", fontsize=10)
        axes.legend(fontsize=8, loc="lower right")


def _draw_hardness(run: RunResults, records: RunRecords, path: Path) -> None:
    """Each measure of hardness against the advantage at the end."""
    advantage, vulnerable = records.paths.advantage[-1], records.vulnerable[-1]
    measures = drawn_measures(run.hardness)
    n_columns = min(3, len(measures))
    n_rows = -(-len(measures) // n_columns)
    jitter = np.random.default_rng(0).uniform(-0.02, 0.02, len(advantage))
    with figure(path, 0.6 + 3.6 * n_columns, 3.5 * n_rows, panels=(n_rows, n_columns)) as panels:
        all_axes = panels if isinstance(panels, list) else [panels]
        for axes, measure in zip(all_axes, measures, strict=False):
            hardness, row = records.hardness[measure], run.hardness[measure]
            at = np.flatnonzero(records.paths.is_defined & np.isfinite(hardness))
            at = at[:: max(1, -(-len(at) // _MOST_POINTS))]
            for mask, colour in ((~vulnerable[at], COLOURS[0]), (vulnerable[at], COLOURS[1])):
                axes.plot(hardness[at[mask]], (advantage + jitter)[at[mask]], ".", color=colour,
                          markersize=2.5, alpha=0.5)  # fmt: skip
            axes.set(
                xlabel=measure_label(measure), ylabel=f"advantage at the end ({row.pearson.n:,} records)"
            )
            axes.set_title(_correlation_title(row), fontsize=9)
        for axes in all_axes[len(measures) :]:
            axes.set_visible(False)


def drawn_measures(measures: Iterable[str]) -> list[str]:
    """At most eight measures to draw.

    Omits the predictive entropy, and the own-class form of a measure that is there over all classes.
    """
    names = list(measures)
    return [
        name
        for name in names
        if not name.startswith("predictive_entropy")
        and (name.removesuffix("_own_class") == name or name.removesuffix("_own_class") not in names)
    ][:_MOST_MEASURES]


def _correlation_title(row: HardnessFigures) -> str:
    if row.pearson.r is None:
        return f"undefined: {row.pearson.reason}"
    among = row.among_vulnerable.r
    return f"r = {row.pearson.r:.2f}" + ("" if among is None else f"; vulnerable (orange): {among:.2f}")


_OVER_TRAINING = {
    "trajectories.png": draw_paths,
    "centre_of_mass.png": draw_centre,
    "over_epochs.png": _draw_over_epochs,
    "transitions.png": _draw_transitions,
    "early_exposure.png": _draw_early,
}
