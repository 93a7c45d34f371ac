"""The scaling study's figures: attack success, overfitting and accuracy against size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.report.figures import COLOURS, MARKERS, figure
from leakscope.studies.scaling.report import ATTACK_NAMES, published_rows
from leakscope.studies.scaling.results import ScalingResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SUMMARY = "summary_plots"


def write_figures(results: ScalingResults, folder: Path) -> list[str]:
    """Writes one PNG per figure and one with all of them; returns their names, without suffix."""
    for name, draw in _DRAWINGS.items():
        with figure(folder / f"{name}.png") as axes:
            draw(axes, results)
    with figure(folder / f"{_SUMMARY}.png", 13, 8.4, panels=(2, 2)) as panels:
        for axes, draw in zip(panels, (*_DRAWINGS.values(), _accuracy_against_size), strict=True):
            draw(axes, results)
    return [*_DRAWINGS, _SUMMARY]


def _auc_against_size(axes: Axes, results: ScalingResults) -> None:
    size = _size_axis(axes, results)
    _draw_aucs(axes, results, size, "-")
    _draw_published(axes, size, [row.attack_auc for row in published_rows(results)])
    _finish_auc_axis(axes, results)
    axes.set_title("Attack success against model size")


def _auc_against_gap(axes: Axes, results: ScalingResults) -> None:
    _draw_aucs(axes, results, [row.mean_overfit_gap for row in results.results], "none")
    published = published_rows(results)
    _draw_published(axes, [row.gap for row in published], [row.attack_auc for row in published])
    _finish_auc_axis(axes, results)
    axes.set_xlabel("overfitting gap (train minus test accuracy)")
    axes.set_title("Attack success against overfitting")


def _gap_against_size(axes: Axes, results: ScalingResults) -> None:
    size = _size_axis(axes, results)
    gap = [row.mean_overfit_gap for row in results.results]
    sd = [row.std_overfit_gap for row in results.results]
    axes.errorbar(size, gap, sd, color=COLOURS[0], marker="o", markersize=5, capsize=2, label="measured")
    _draw_published(axes, size, [row.gap for row in published_rows(results)])
    axes.legend(fontsize=8)
    axes.set_ylabel(f"overfitting gap ({_n(results)})")
    r = results.correlations.gap_vs_log_params.r
    axes.set_title("Overfitting against model size" + ("" if r is None else f" (r = {r:.3f})"))


def _accuracy_against_size(axes: Axes, results: ScalingResults) -> None:
    size, rows = _size_axis(axes, results), results.results
    train, test = [row.mean_train_acc for row in rows], [row.mean_test_acc for row in rows]
    axes.plot(size, train, color=COLOURS[0], marker="o", markersize=5, label="members (train)")
    axes.plot(size, test, color=COLOURS[1], marker="s", markersize=5, label="non-members (test)")
    axes.set_ylabel(f"accuracy (mean of {results.config.n_repeats} repeats)")
    axes.set_title("Accuracy against model size")
    axes.legend(fontsize=8)


def _n(results: ScalingResults) -> str:
    return f"mean ± sd of {results.config.n_repeats} repeats"


def _size_axis(axes: Axes, results: ScalingResults) -> list[float]:
    """A log2 axis with the study's own parameter counts as ticks, thinned when there are many."""
    n_params = [float(row.n_params) for row in results.results]
    axes.set_xscale("log", base=2)
    ticks = n_params[:: max(1, len(n_params) // 6)]
    axes.set_xticks(ticks, [f"{n:,.0f}" for n in ticks])
    axes.minorticks_off()
    axes.set_xlabel("parameters (log scale)")
    return n_params


def _draw_aucs(axes: Axes, results: ScalingResults, x: list[float], linestyle: str) -> None:
    """Every attack's AUC over `x`."""
    for attack, colour, marker in zip(results.attacks, COLOURS, MARKERS, strict=False):
        of_attack = [row.attacks[attack] for row in results.results]
        axes.errorbar(x, [a.mean_auc for a in of_attack], [a.std_auc for a in of_attack], color=colour,
                      marker=marker, markersize=5, capsize=2, linestyle=linestyle,
                      label=ATTACK_NAMES[attack])  # fmt: skip


def _draw_published(axes: Axes, x: list[float], y: list[float]) -> None:
    """Published values as rings; nothing where there are none."""
    if y:
        axes.plot(x, y, "o", mfc="none", mec="#555555", markersize=8, label="published")


def _finish_auc_axis(axes: Axes, results: ScalingResults) -> None:
    axes.axhline(0.5, color="#888888", linewidth=0.9, linestyle="--")
    axes.set_ylabel(f"attack AUC ({_n(results)})")
    axes.legend(fontsize=8, loc="upper left")
    top = axes.get_ylim()[1]
    axes.set_ylim(None, top + 0.25 * (top - 0.5))  # room for the legend


_DRAWINGS = {
    "attack_auc_vs_size": _auc_against_size,
    "attack_auc_vs_gap": _auc_against_gap,
    "overfit_gap_vs_size": _gap_against_size,
}
