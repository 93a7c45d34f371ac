"""The charts of the leakage study: boxes of advantage with a line of leakage, bounds, bits."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from leakscope.report.charts import chart, colour
from leakscope.report.tables import Table
from leakscope.studies.leakage.figures import CHAIN
from leakscope.studies.leakage.report import AXES, FINE, number

Point = dict[str, Any]
_FIVE = {"q1": "q1", "median": "med", "q3": "q3", "lowerfence": "whislo", "upperfence": "whishi"}
"""What plotly calls the five numbers of a box -> what results call them."""


def figure(id: str, results: dict[str, Any], name: str) -> Markup:
    """Boxes of advantage on the left axis, leakage with its interval and floor on the right."""
    points = results["figures"][name]["points"]
    at = [number(p["value"]) for p in points]
    n_records = results["config"]["network_records" if name == "2" else "records"]
    data = [
        *_boxes(at, points),
        _leakage(at, points, "rho_kl", "leakage, mean", colour(1)),
        *([_leakage(at, points, FINE, f"leakage at precision {results['config']['precision']}", colour(2))]
          if name == "3" else []),
        _right(at, [p["rho_kl"]["median"] for p in points], "leakage, median record", colour(1), "dot"),
        _right(at, [p["rho_kl"]["floor"] for p in points], "bias taken off (floor)", "var(--muted)", "dash"),
    ]  # fmt: skip
    of_what = "answer" if name == "2" else "parameters"
    keys = ("rho_kl", FINE) if name == "3" else ("rho_kl",)
    layout = {
        "xaxis": {"title": {"text": AXES[name]}, "type": "category"},
        "yaxis": {"title": {"text": f"advantage (boxes over {n_records} records)"}, "rangemode": "tozero"},
        "yaxis2": {"title": {"text": f"leakage of the {of_what} (nats)"}, "overlaying": "y", "side": "right",
                   "showgrid": False, **_scale(points, keys)},
        "legend": {"orientation": "h", "y": 1.14},
        "margin": {"l": 60, "r": 64, "t": 40, "b": 52},
        "boxmode": "overlay",
    }  # fmt: skip
    alt = (
        "Advantage of the threshold adversary (boxes) and leakage (line, 95% interval) at "
        f"{len(points)} points of {AXES[name].split(' (')[0]}, {n_records} records."
    )
    return chart(id, {"data": data, "layout": layout}, alt, None, 440)


def bounds(id: str, results: dict[str, Any], name: str) -> Markup:
    """Measured advantages below the bounds that no adversary passes."""
    points = results["figures"][name]["points"]
    at = [number(p["value"]) for p in points]
    data = [
        {"type": "scatter", "mode": "lines+markers", "name": label, "x": at,
         "y": [p["chain"][key] for p in points],
         "line": {"color": colour(k), "width": 2, "dash": "solid" if k < 2 else "dot"}}
        for k, (key, label) in enumerate(CHAIN.items())
    ]  # fmt: skip
    layout = {"xaxis": {"title": {"text": AXES[name].split(" (")[0]}, "type": "category"},
              "yaxis": {"title": {"text": "advantage, mean over records"}, "range": [0, 1.05]},
              "legend": {"orientation": "h", "y": -0.3}}  # fmt: skip
    rows = [
        [where, *(f"{p['chain'][key]:.3f}" for key in CHAIN)] for where, p in zip(at, points, strict=True)
    ]
    numbers = Table((AXES[name].split(" (")[0], *CHAIN.values()), rows)
    alt = f"Two adversaries (solid) and four bounds on any (dotted) at the points of figure {name}."
    return chart(id, {"data": data, "layout": layout}, alt, numbers, 380)


def bits(id: str, results: dict[str, Any], name: str) -> Markup:
    """Mutual information at the points of a figure, with its numerical error."""
    points = results["figures"][name]["points"]
    at, found = [number(p["value"]) for p in points], [p["rho_mi_bits"] for p in points]
    data = [
        {"type": "scatter", "mode": "lines+markers", "x": at, "y": [f["mean"] for f in found],
         "line": {"color": colour(0), "width": 2}, "name": "rho_MI", "showlegend": False,
         "error_y": {"type": "data", "array": [f["error"] for f in found], "color": colour(0)}}
    ]  # fmt: skip
    layout = {"xaxis": {"title": {"text": AXES[name].split(" (")[0]}, "type": "category"},
              "yaxis": {"title": {"text": "bits, mean over records"}, "rangemode": "tozero"}}  # fmt: skip
    rows = [[where, number(f["mean"]), number(f["error"])] for where, f in zip(at, found, strict=True)]
    head = (AXES[name].split(" (")[0], "rho_MI (bits)", "numerical error")
    alt = f"Mutual information in bits at the points of figure {name}."
    return chart(id, {"data": data, "layout": layout}, alt, Table(head, rows), 280)


def _boxes(at: list[str], points: list[Point]) -> list[dict[str, Any]]:
    """Boxes from their five numbers, and what is beyond the whiskers as dots."""
    boxes = [p["advantage"]["box"] for p in points]
    beyond = [(x, y) for x, box in zip(at, boxes, strict=True) for y in box["fliers"]]
    five = {name: [box[key] for box in boxes] for name, key in _FIVE.items()}
    look = {"line": {"color": colour(0)}, "fillcolor": colour(0, band=True), "name": "advantage"}
    dots = {"type": "scatter", "mode": "markers", "x": [x for x, _ in beyond], "y": [y for _, y in beyond],
            "marker": {"color": colour(0), "size": 4, "opacity": 0.5}, "showlegend": False,
            "name": "advantage"}  # fmt: skip
    return [{"type": "box", "x": at, **five, **look, "whiskerwidth": 0.5}, *([dots] if beyond else [])]


def _leakage(at: list[str], points: list[Point], key: str, label: str, hue: str) -> dict[str, Any]:
    mean, low, high = ([p[key][end] for p in points] for end in ("mean", "mean_low", "mean_high"))

    def apart(ends: list[float | None]) -> list[float]:
        return [0.0 if m is None or end is None else abs(end - m) for m, end in zip(mean, ends, strict=True)]

    error = {"type": "data", "symmetric": False, "array": apart(high), "arrayminus": apart(low), "color": hue}
    return {**_right(at, mean, label, hue, "solid"), "mode": "lines+markers", "error_y": error}


def _right(at: list[str], y: list[float | None], label: str, hue: str, dash: str) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "x": at, "y": y, "name": label, "yaxis": "y2",
            "line": {"color": hue, "width": 2, "dash": dash}}  # fmt: skip


def _scale(points: list[Point], keys: tuple[str, ...]) -> dict[str, Any]:
    """Logarithmic, unless a mean or the end of its interval is at or below 0."""
    all_ends = [p[key][end] for p in points for key in keys for end in ("mean", "mean_low", "median")]
    ends = [end for end in all_ends if end is not None]
    if not ends or min(ends) <= 0:
        return {}
    # Where whole decades are in sight they alone are labelled: plotly's digits between them mislead.
    return {"type": "log", "exponentformat": "power", **({"dtick": 1} if max(ends) > 30 * min(ends) else {})}
