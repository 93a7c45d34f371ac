"""The dynamics study's figures: all over epochs beside its noise floor, moves, hardness, comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakscope.report.figures import COLOURS, figure
from leakscope.studies.dynamics.plane_figures import (
    FLOOR,
    draw_centre,
    draw_paths,
    draw_planes,
    frame_square,
    grid_side,
    run_colours,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakscope.hardness.correlations import HardnessCorrelation
    from leakscope.studies.dynamics.judge import JudgedRun

_MOST_POINTS = 3000
_MOST_MEASURES = 8


def draw_run(run: JudgedRun, folder: Path) -> list[str]:
    """All figures of one run; returns the files' names. Paths over time need two checkpoints."""
    draw_planes(run, folder / "plane.png")
    drawn = ["plane.png"]
    if len(run.paths.epochs) > 1:
        for name, draw in _OVER_TIME.items():
            draw(run, folder / name)
            drawn.append(name)
    if run.correlations:
        _draw_hardness(run, folder / "hardness.png")
        drawn.append("hardness.png")
    return drawn


def draw_comparison(runs: list[JudgedRun], path: Path) -> None:
    """Vulnerable records, entropy and the way of the centre of mass, one line a run; dotted: noise floors."""
    from matplotlib.ticker import MaxNLocator

    with figure(path, 12.6, 4.4, panels=(1, 3)) as panels:
        for run, colour in zip(runs, run_colours(len(runs)), strict=True):
            _compared_run(panels, run, colour)
        panels[0].set(
            xlabel="epoch", ylabel="records in the vulnerable corner (%)", title="Vulnerable records"
        )
        panels[0].set_ylim(0, 1.3 * panels[0].get_ylim()[1])  # room for the legend
        panels[0].legend(fontsize=8, loc="upper left")
        panels[1].set(xlabel="epoch", ylabel="spatial entropy (bits)", title="Spread (dotted: noise floors)")
        for axes in panels[:2]:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[2].axline((0.5, 0.5), slope=1, color=FLOOR, linewidth=0.9, linestyle="--")
        panels[2].set(xlabel="mean FPR", ylabel="mean TPR", title="Centre of mass (large: at the end)")
        frame_square(panels[2], np.concatenate([run.found.centre for run in runs]))


def _compared_run(panels: list[Axes], run: JudgedRun, colour: str) -> None:
    epochs, found, floor = run.paths.epochs, run.found, run.floor.mean
    name = run.setting.name
    panels[0].plot(epochs, 100 * found.vulnerable, color=colour, marker="o", markersize=3, label=name)
    panels[0].plot(epochs, 100 * floor.vulnerable, color=colour, linewidth=1, linestyle=":")
    panels[1].plot(epochs, found.entropy, color=colour, marker="o", markersize=3)
    panels[1].plot(epochs, floor.entropy, color=colour, linewidth=1, linestyle=":")
    panels[2].plot(*found.centre.T, color=colour, marker="o", markersize=2.5)
    panels[2].plot(*found.centre[-1], color=colour, marker="o", markersize=7)


def _draw_over_epochs(run: JudgedRun, path: Path) -> None:
    """Advantage, vulnerable records, entropy and entry, each with standard error and noise floor."""
    epochs = run.paths.epochs
    panels_of = (
        ("advantage", epochs, 1, "mean advantage (TPR - FPR)", "Advantage"),
        ("vulnerable", epochs, 100, "records (%)", "In the vulnerable corner"),
        ("entropy", epochs, 1, "spatial entropy (bits)", "Spread over the plane"),
        ("entry_per_epoch", epochs[1:], 100, "probability an epoch (%)", "Entering the vulnerable corner"),
    )
    with figure(path, 10.4, 7.0, panels=(2, 2)) as panels:
        for axes, (name, at, scale, label, title) in zip(panels, panels_of, strict=True):
            _line_with_floor(axes, run, name, at, scale)
            axes.set(xlabel="epoch", ylabel=label, title=title)
        panels[0].legend(fontsize=8)


def _line_with_floor(axes: Axes, run: JudgedRun, name: str, epochs: tuple[int, ...], scale: float) -> None:
    value, error = (scale * getattr(m, name) for m in (run.found, run.replicates.standard_error))
    low, mean, high = (scale * getattr(m, name) for m in (run.floor.low, run.floor.mean, run.floor.high))
    axes.fill_between(epochs, low, high, color=FLOOR, alpha=0.3, linewidth=0)
    n = run.floor.n_permutations
    axes.plot(epochs, mean, color=FLOOR, linewidth=1.2, label=f"noise floor ({n} permuted designs, range)")
    axes.fill_between(epochs, value - error, value + error, color=COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(epochs, value, color=COLOURS[0], marker="o", markersize=3, label="measured ± standard error")


def _draw_transitions(run: JudgedRun, path: Path) -> None:
    """Where records of each cell are at the next checkpoint, over all of training."""
    from matplotlib.patches import Rectangle

    shares = np.array(run.result["transitions"]["overall"], dtype=np.float64)  # null becomes NaN
    counts = np.array(run.result["transitions"]["counts"]).sum(axis=(0, 2))
    side = grid_side(run)
    names = [name.replace("FPR ", "").replace(", TPR ", " / ") for name in run.result["transitions"]["cells"]]
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
        axes.set_title("Moves between cells, % of a row's records (outlined: vulnerable)")
        axes.grid(False)


def _draw_early(run: JudgedRun, path: Path) -> None:
    """Recall and precision of each checkpoint's vulnerable records against the last one's."""
    epochs, floor = run.paths.epochs, run.floor
    with figure(path, 6.4, 4.4) as axes:
        for name, colour, label in (
            ("recall", COLOURS[0], "of the finally vulnerable, already vulnerable"),
            ("precision", COLOURS[1], "of the vulnerable, still vulnerable at the end"),
        ):
            axes.plot(
                epochs, 100 * getattr(run.found, name), color=colour, marker="o", markersize=3, label=label
            )
            axes.plot(epochs, 100 * getattr(floor.mean, name), color=colour, linewidth=1, linestyle=":")
        axes.axhline(70, color=FLOOR, linewidth=0.9, linestyle="--")
        axes.plot([], [], color="black", linewidth=1, linestyle=":", label="noise floor of each")
        axes.set(xlabel="epoch", ylabel="records (%)", ylim=(0, 103))
        first = run.found.first_epoch
        reached = "" if np.isnan(first) else f" (70% by epoch {first:.0f} of {epochs[-1]})"
        axes.set_title(f"How early the finally vulnerable are there{reached}")
        axes.legend(fontsize=8, loc="lower right")


def _draw_hardness(run: JudgedRun, path: Path) -> None:
    """Each measure of hardness against the advantage at the end."""
    defined = run.paths.is_defined
    advantage, vulnerable = run.paths.advantage[-1], run.vulnerable[-1]
    rows = shown_measures(run)
    n_columns = min(3, len(rows))
    n_rows = -(-len(rows) // n_columns)
    jitter = np.random.default_rng(0).uniform(-0.02, 0.02, len(advantage))
    with figure(path, 0.6 + 3.6 * n_columns, 3.5 * n_rows, panels=(n_rows, n_columns)) as panels:
        all_axes = panels if isinstance(panels, list) else [panels]
        for axes, row in zip(all_axes, rows, strict=False):
            hardness = run.hardness[row.measure]
            at = np.flatnonzero(defined & np.isfinite(hardness))
            at = at[:: max(1, -(-len(at) // _MOST_POINTS))]
            for mask, colour in ((~vulnerable[at], COLOURS[0]), (vulnerable[at], COLOURS[1])):
                axes.plot(hardness[at[mask]], (advantage + jitter)[at[mask]], ".", color=colour,
                          markersize=2.5, alpha=0.5)  # fmt: skip
            axes.set(
                xlabel=row.measure.replace("_", " "),
                ylabel=f"advantage at the end ({row.pearson.n:,} records)",
            )
            axes.set_title(_r_words(row), fontsize=9)
        for axes in all_axes[len(rows) :]:
            axes.set_visible(False)


def shown_measures(run: JudgedRun) -> list[HardnessCorrelation]:
    """At most eight: without total entropy, and without own-class forms of what all classes' answers gave."""
    names = {row.measure for row in run.correlations}
    return [
        row
        for row in run.correlations
        if not row.measure.startswith("predictive_entropy")
        and row.measure.removesuffix("_own_class") not in names - {row.measure}
    ][:_MOST_MEASURES]


def _r_words(row: HardnessCorrelation) -> str:
    among = row.among_vulnerable.r
    inside = "" if np.isnan(among) else f"; vulnerable (orange): {among:.2f}"
    found = row.pearson
    return f"undefined: {found.reason}" if found.reason else f"r = {found.r:.2f}{inside}"


_OVER_TIME = {
    "trajectories.png": draw_paths,
    "centre_of_mass.png": draw_centre,
    "over_epochs.png": _draw_over_epochs,
    "transitions.png": _draw_transitions,
    "early_exposure.png": _draw_early,
}
