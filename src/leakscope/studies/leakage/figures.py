"""The leakage study's six pictures: boxes of advantage with a line of leakage, and the chain of bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakscope.report.figures import COLOURS, MARKERS, figure
from leakscope.studies.leakage.report import AXES, FINE, TITLES, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHAIN = {
    "advantage": "threshold adversary",
    "likelihood_ratio": "likelihood-ratio adversary",
    "total_variation": "total variation",
    "pinsker": "Pinsker",
    "bretagnolle_huber": "Bretagnolle-Huber",
    "document": "document, √ρ_KL / 2",
}


def write_figures(results: dict[str, Any], folder: Path) -> None:
    """One picture a figure, and the chain of bounds of all of them."""
    for name in results["figures"]:
        with figure(folder / f"figure_{name}.png", 7.2, 4.4) as axes:
            _two_axes(axes, results, name)
    n_figures = len(results["figures"])
    rows, columns = (1, n_figures) if n_figures < 3 else (2, (n_figures + 1) // 2)
    with figure(folder / "bounds.png", 4.6 * columns + 1, 4.0 * rows, panels=(rows, columns)) as panels:
        flat = panels if isinstance(panels, list) else [panels]
        for axes, name in zip(flat, results["figures"], strict=False):
            _bounds(axes, results, name)
        for axes in flat[n_figures:]:
            axes.axis("off")
        if len(flat) > n_figures:
            flat[-1].legend(*flat[0].get_legend_handles_labels(), loc="center", fontsize=9)
        else:
            flat[0].legend(fontsize=7)


def _two_axes(axes: Axes, results: dict[str, Any], name: str) -> None:
    """Boxes of advantage on the left, leakage on the right."""
    points = results["figures"][name]["points"]
    at = list(range(len(points)))
    axes.bxp([p["advantage"]["box"] for p in points], positions=at, widths=0.5, patch_artist=True,
             boxprops={"facecolor": "#d9e8f3", "edgecolor": COLOURS[0]}, medianprops={"color": COLOURS[0]},
             whiskerprops={"color": COLOURS[0]}, capprops={"color": COLOURS[0]},
             flierprops={"markersize": 3, "markeredgecolor": COLOURS[0]})  # fmt: skip
    axes.set_xticks(at, [number(p["value"]) for p in points])
    axes.set_xlabel(AXES[name])
    n_records = results["config"]["network_records" if name == "2" else "records"]
    axes.set_ylabel(
        f"advantage of the threshold adversary\n(boxes over {n_records} records)", color=COLOURS[0]
    )
    axes.set_ylim(bottom=-0.04 * axes.get_ylim()[1])  # a box at 0 stays in sight
    axes.set_title(f"Figure {name}. {TITLES[name]}")
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.grid(False)
    shown = [("rho_kl", "leakage (mean, 95% interval)", COLOURS[1], "o")]
    if name == "3":
        shown = [("rho_kl", "continuous leakage (mean, 95% interval)", COLOURS[1], "o"),
                 (FINE, f"at precision {results['config']['precision']}", COLOURS[2], "s")]  # fmt: skip
    for key, label, colour, marker in shown:
        _line(right, points, key, label, colour, marker)
    floor = [p["rho_kl"]["floor"] for p in points]
    right.plot(*_defined(at, floor), "--", color="#777777", linewidth=1.2, label="bias taken off (floor)")
    _scale(right, points, [key for key, *_ in shown])
    of_what = "answer" if name == "2" else "parameters"
    right.set_ylabel(f"leakage of the {of_what}, ρ_KL (nats)", color=COLOURS[1])
    right.legend(fontsize=8, loc="best")


def _line(right: Axes, points: list[dict[str, Any]], key: str, label: str, colour: str, marker: str) -> None:
    at, mean = _defined(range(len(points)), [p[key]["mean"] for p in points])
    right.plot(at, mean, color=colour, marker=marker, markersize=5, label=label)
    ends = [(i, p[key]["mean_low"], p[key]["mean_high"]) for i, p in enumerate(points)
            if p[key]["mean_low"] is not None]  # fmt: skip
    if ends:
        x, low, high = zip(*ends, strict=True)
        right.vlines(x, low, high, color=colour, linewidth=1.4)
    if key == "rho_kl":
        at, median = _defined(range(len(points)), [p[key]["median"] for p in points])
        right.plot(at, median, ":", color=colour, linewidth=1.2, label="leakage (median record)")


def _defined(at: Any, values: list[float | None]) -> tuple[list[int], list[float]]:
    kept = [(i, v) for i, v in zip(at, values, strict=True) if v is not None]
    return [i for i, _ in kept], [v for _, v in kept]


def _scale(right: Axes, points: list[dict[str, Any]], keys: list[str]) -> None:
    """Logarithmic; where something is at or below 0, linear up to the smallest mean's size."""
    ends = [p[key][end] for p in points for key in keys for end in ("mean", "mean_low", "median")]
    means = [abs(p[key]["mean"]) for p in points for key in keys if p[key]["mean"]]
    if not means:
        return
    if any(end is not None and end <= 0 for end in ends):
        right.set_yscale("symlog", linthresh=max(min(means), 1e-6 * max(means)))
    else:
        right.set_yscale("log")


def _bounds(axes: Axes, results: dict[str, Any], name: str) -> None:
    points = results["figures"][name]["points"]
    at = range(len(points))
    for (key, label), colour, marker in zip(CHAIN.items(), COLOURS, MARKERS, strict=False):
        axes.plot(
            at, [p["chain"][key] for p in points], color=colour, marker=marker, markersize=4, label=label
        )
    axes.set_xticks(list(at), [number(p["value"]) for p in points], fontsize=8)
    axes.set_xlabel(AXES[name].split(" (")[0])
    axes.set_ylabel("advantage, mean over records")
    axes.set_ylim(0, 1.05)
    axes.set_title(f"Figure {name}'s points")
