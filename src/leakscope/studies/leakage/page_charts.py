"""The charts of the leakage study's figures: leakage and advantage, inequalities, bits."""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.report.blocks import Table
from leakscope.report.charts import Chart, PlotlyFigure, axis, colour, error_bars, line
from leakscope.studies.leakage.config import FIGURES, NETWORK
from leakscope.studies.leakage.results import Box, Leakage, LeakageResults, Point

ADVANTAGES = {
    "advantage": "threshold adversary",
    "likelihood_ratio": "likelihood-ratio adversary",
    "total_variation": "fit: total variation",
    "pinsker": "fit: Pinsker",
    "bretagnolle_huber": "fit: Bretagnolle-Huber",
    "farokhi_kaafar": "fit: √ρ_KL / 2",
}
"""Field of `Inequalities` -> its label: measured first, then quantities of the fitted Gaussians."""
_MARGIN = {"l": 64, "r": 16, "t": 24, "b": 60}


def leakage_chart(results: LeakageResults, figure: int, redacted: bool = False) -> Chart:
    """Boxes of advantage on the left axis, leakage with its interval and floor on the right.

    Medians, whiskers and outliers are figures of single records; redacted, means take their place.
    """
    points, spec = results.figures[figure].points, FIGURES[figure]
    n_records, of_what = results.config.records_of(figure), "output" if figure == NETWORK else "parameters"
    layout = {
        "xaxis": axis(spec.axis, type="category"),
        "yaxis": axis(f"advantage ({'mean' if redacted else 'boxes'} over {n_records} records)",
                      rangemode="tozero"),
        "yaxis2": axis(f"leakage of the {of_what} (nats)", overlaying="y", side="right", showgrid=False,
                       **_scale([*(p.rho_kl for p in points), *_rounded_leakage(points)])),
        "legend": {"orientation": "h", "y": 1.14},
        "margin": {"l": 64, "r": 64, "t": 40, "b": 60},
        "boxmode": "overlay",
    }  # fmt: skip
    alt = (
        f"Advantage of the threshold adversary ({'means' if redacted else 'boxes'}) and leakage (line, 95% "
        "interval) at "
        f"{len(points)} values of {spec.short_axis}, {n_records} records."
    )
    drawn = {"data": _advantage_and_leakage(results, figure, redacted), "layout": layout}
    return Chart(f"figure-{figure}-chart", drawn, alt, None, 440, png=f"figure_{figure}")


def _rounded_leakage(points: Sequence[Point]) -> list[Leakage]:
    """The leakage of rounded parameters, at the points that have it."""
    fine = (point.rho_kl_finite_precision for point in points)
    return [one for one in fine if one is not None]


def _advantage_and_leakage(results: LeakageResults, figure: int, redacted: bool) -> list[PlotlyFigure]:
    points, config = results.figures[figure].points, results.config
    at, rho, rounded = [number(p.value) for p in points], [p.rho_kl for p in points], _rounded_leakage(points)
    means = line(at, [p.advantage.mean for p in points], "advantage, mean", colour(0), mode="lines+markers")
    advantages = [means] if redacted else _boxes(at, [p.advantage.box for p in points])
    fitted = " by Gaussian fit" if figure == NETWORK else ""
    data = [*advantages, _mean_line(at, rho, f"leakage{fitted}, mean", colour(1))]
    if rounded:
        data.append(_mean_line(at, rounded, f"leakage, rounded to {config.precision}", colour(2)))
    if figure == NETWORK:
        neighbours = [p.output.neighbours for p in points]
        if all(neighbours):
            by_neighbours = [one for one in neighbours if one is not None]
            data.append(_mean_line(at, by_neighbours, "leakage by nearest neighbors, mean", colour(3)))
    medians, floors = [one.median for one in rho], [one.floor for one in rho]
    if not redacted:
        data.append(line(at, medians, "leakage, median record", colour(1), "dot", yaxis="y2"))
    data.append(line(at, floors, "bias, subtracted (floor)", "var(--muted)", "dash", yaxis="y2"))
    return data


def inequalities_chart(results: LeakageResults, figure: int) -> Chart:
    """Measured advantages beside quantities of the fitted Gaussians."""
    points, points_axis = results.figures[figure].points, FIGURES[figure].short_axis
    at = [number(p.value) for p in points]
    series = {label: [getattr(p.inequalities, name) for p in points] for name, label in ADVANTAGES.items()}
    data = [
        line(at, values, label, colour(k), "solid" if k < 2 else "dot", mode="lines+markers")
        for k, (label, values) in enumerate(series.items())
    ]
    layout = {"xaxis": axis(points_axis, type="category"),
              "yaxis": axis("advantage, mean over records", range=[0, 1.05]),
              "legend": {"orientation": "h", "y": -0.3}, "margin": _MARGIN}  # fmt: skip
    rows = [
        [where, *(f"{value:.3f}" for value in values)]
        for where, values in zip(at, zip(*series.values(), strict=True), strict=True)
    ]
    alt = f"Two measured adversaries (solid), four quantities of the fits (dotted), figure {figure}."
    numbers, title = Table((points_axis, *series), rows), f"Figure {figure}"
    return Chart(f"inequalities-{figure}", {"data": data, "layout": layout}, alt, numbers, 380, title)


def bits_chart(results: LeakageResults, figure: int) -> Chart:
    """Mutual information at the points of a figure, with its numerical error."""
    points, points_axis = results.figures[figure].points, FIGURES[figure].short_axis
    at, information = [number(p.value) for p in points], [p.rho_mi_bits for p in points]
    error = {"type": "data", "array": [one.error for one in information], "color": colour(0)}
    data = [
        line(at, [one.mean for one in information], "rho_MI", colour(0), mode="lines+markers",
             showlegend=False, error_y=error)
    ]  # fmt: skip
    layout = {"xaxis": axis(points_axis, type="category"), "margin": _MARGIN,
              "yaxis": axis("bits, mean over records", rangemode="tozero")}  # fmt: skip
    rows = [[where, number(one.mean), number(one.error)] for where, one in zip(at, information, strict=True)]
    numbers = Table((points_axis, "rho_MI (bits)", "numerical error"), rows)
    alt = f"Mutual information in bits at the points of figure {figure}."
    drawn, title = {"data": data, "layout": layout}, f"Figure {figure}"
    return Chart(f"bits-{figure}", drawn, alt, numbers, 280, title)


def number(value: float | None) -> str:
    """Three digits; a dash where undefined."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _boxes(at: list[str], boxes: list[Box]) -> list[PlotlyFigure]:
    """Boxes from their five numbers, and outliers as dots."""
    outliers = [(x, y) for x, box in zip(at, boxes, strict=True) for y in box.outliers]
    trace = {
        "type": "box",
        "x": at,
        "q1": [box.q1 for box in boxes],
        "median": [box.median for box in boxes],
        "q3": [box.q3 for box in boxes],
        "lowerfence": [box.whisker_low for box in boxes],
        "upperfence": [box.whisker_high for box in boxes],
        "line": {"color": colour(0)},
        "fillcolor": colour(0, band=True),
        "name": "advantage",
        "whiskerwidth": 0.5,
    }
    dots = {"type": "scatter", "mode": "markers",
            "x": [x for x, _ in outliers], "y": [y for _, y in outliers],
            "marker": {"color": colour(0), "size": 4, "opacity": 0.5}, "showlegend": False,
            "name": "advantage"}  # fmt: skip
    return [trace, *([dots] if outliers else [])]


def _mean_line(at: list[str], leakage: Sequence[Leakage], label: str, hue: str) -> PlotlyFigure:
    mean, low, high = ([getattr(one, end) for one in leakage] for end in ("mean", "mean_low", "mean_high"))
    bars = error_bars(mean, low, high, hue)
    return line(at, mean, label, hue, yaxis="y2", mode="lines+markers", error_y=bars)


def _scale(leakage: Sequence[Leakage]) -> PlotlyFigure:
    """Logarithmic, unless a mean, a median or the end of an interval is at or below 0."""
    drawn = [end for one in leakage for end in (one.mean, one.mean_low, one.median) if end is not None]
    if not drawn or min(drawn) <= 0:
        return {}
    # Over several decades only whole ones are labelled: plotly's digits between them mislead.
    return {
        "type": "log",
        "exponentformat": "power",
        **({"dtick": 1} if max(drawn) > 30 * min(drawn) else {}),
    }
