"""The scaling study's figures: attack success, overfitting and accuracy against size, from its results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakscope.report.figures import COLOURS, MARKERS, figure
from leakscope.studies.scaling.report import ATTACK_NAMES, PUBLISHED, is_published

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SUMMARY = "summary_plots"


def write_figures(results: dict[str, Any], folder: Path) -> list[str]:
    """One PNG a figure and one of all of them; returns their names, without suffix."""
    for name, draw in _DRAWINGS.items():
        with figure(folder / f"{name}.png") as axes:
            draw(axes, results)
    with figure(folder / f"{_SUMMARY}.png", 13, 8.4, panels=(2, 2)) as panels:
        for axes, draw in zip(panels, (*_DRAWINGS.values(), _accuracy_against_size), strict=True):
            draw(axes, results)
    return [*_DRAWINGS, _SUMMARY]


def _series(results: dict[str, Any], field: str) -> list[Any]:
    return [row[field] for row in results["results"]]


def _auc_series(results: dict[str, Any], attack: str) -> tuple[list[float], list[float]]:
    found = [row["attacks"][attack] for row in results["results"]]
    return [f["mean_auc"] for f in found], [f["std_auc"] for f in found]


def _n(results: dict[str, Any]) -> str:
    return f"mean ± sd of {results['config']['n_repeats']} repeats"


def _size_axis(axes: Axes, results: dict[str, Any]) -> list[float]:
    """A log2 axis with the study's own parameter counts as ticks, thinned when there are many."""
    n_params = _series(results, "n_params")
    axes.set_xscale("log", base=2)
    ticks = n_params[:: max(1, len(n_params) // 6)]
    axes.set_xticks(ticks, [f"{n:,.0f}" for n in ticks])
    axes.minorticks_off()
    axes.set_xlabel("parameters (log scale)")
    return n_params


def _auc_against_size(axes: Axes, results: dict[str, Any]) -> None:
    size = _size_axis(axes, results)
    _draw_aucs(axes, results, size)
    axes.set_title("Attack success against model size")


def _auc_against_gap(axes: Axes, results: dict[str, Any]) -> None:
    _draw_aucs(axes, results, _series(results, "mean_overfit_gap"), line=False)
    axes.set_xlabel("overfitting gap (train minus test accuracy)")
    axes.set_title("Attack success against overfitting")


def _draw_aucs(axes: Axes, results: dict[str, Any], x: list[float], line: bool = True) -> None:
    """Every attack's AUC over `x`: parameters with a line, or the gap without one."""
    for attack, colour, marker in zip(results["results"][0]["attacks"], COLOURS, MARKERS, strict=False):
        mean, sd = _auc_series(results, attack)
        axes.errorbar(
            x,
            mean,
            sd,
            color=colour,
            marker=marker,
            markersize=5,
            capsize=2,
            linestyle="-" if line else "none",
            label=ATTACK_NAMES[attack],
        )
    if is_published(results):
        published = [PUBLISHED[w] for w in _series(results, "hidden_width")]
        where = x if line else [values[2] for values in published]
        axes.plot(where, [values[3] for values in published], "o", mfc="none", mec="#555555", markersize=8,
                  label="published")  # fmt: skip
    axes.axhline(0.5, color="#888888", linewidth=0.9, linestyle="--")
    axes.set_ylabel(f"attack AUC ({_n(results)})")
    axes.legend(fontsize=8, loc="upper left")
    top = axes.get_ylim()[1]
    axes.set_ylim(None, top + 0.25 * (top - 0.5))  # room for the legend


def _gap_against_size(axes: Axes, results: dict[str, Any]) -> None:
    size = _size_axis(axes, results)
    gap, sd = _series(results, "mean_overfit_gap"), _series(results, "std_overfit_gap")
    axes.errorbar(size, gap, sd, color=COLOURS[0], marker="o", markersize=5, capsize=2, label="measured")
    if is_published(results):
        published = [PUBLISHED[w][2] for w in _series(results, "hidden_width")]
        axes.plot(size, published, "o", mfc="none", mec="#555555", markersize=8, label="published")
        axes.legend(fontsize=8)
    axes.set_ylabel(f"overfitting gap ({_n(results)})")
    r = results["correlations"]["gap_vs_log_params"]["r"]
    axes.set_title("Overfitting against model size" + ("" if r is None else f" (r = {r:.3f})"))


def _accuracy_against_size(axes: Axes, results: dict[str, Any]) -> None:
    size = _size_axis(axes, results)
    for field, label, colour, marker in (
        ("mean_train_acc", "members (train)", COLOURS[0], "o"),
        ("mean_test_acc", "non-members (test)", COLOURS[1], "s"),
    ):
        axes.plot(size, _series(results, field), color=colour, marker=marker, markersize=5, label=label)
    axes.set_ylabel(f"accuracy (mean of {results['config']['n_repeats']} repeats)")
    axes.set_title("Accuracy against model size")
    axes.legend(fontsize=8)


_DRAWINGS = {
    "attack_auc_vs_size": _auc_against_size,
    "attack_auc_vs_gap": _auc_against_gap,
    "overfit_gap_vs_size": _gap_against_size,
}
