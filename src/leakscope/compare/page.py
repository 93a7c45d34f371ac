"""A comparison's page: did it help, by how much, at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from leakscope.compare.report import (
    LEAKAGE_HEAD,
    PLAIN_HEAD,
    accuracy_table,
    conventions,
    differs_in_words,
    group_tables,
    leakage_rows,
)
from leakscope.compare.words import figure_name
from leakscope.disk.storage import write_bytes
from leakscope.report.charts import chart, colour, label
from leakscope.report.gauge import Gauge
from leakscope.report.page import PAGE, Badge, Page, Section, paragraphs
from leakscope.report.tables import Table, table

Results = dict[str, Any]

_LIMITS = (
    "Whether a stronger attacker would find a difference, or none.",
    "What other training data would show: the intervals hold for these records.",
    "That a change which is not resolved is zero: it lies somewhere in its interval.",
)
_BADGES = {
    "helped": Badge("Leaks less", "good"),
    "worse": Badge("Leaks more", "bad"),
    "mixed": Badge("Mixed", "bad"),
    "no difference": Badge("No difference found"),
}


def write_page(results: Results, folder: Path) -> None:
    """report.html of a comparison's folder."""
    write_bytes(folder / PAGE, page(results).encode())


def page(results: Results) -> str:
    """The whole page as text."""
    comparisons, names = results["comparisons"], [run["name"] for run in results["runs"]]
    sections = [_differences(results)]
    if all(found["accuracy"] for found in comparisons):
        sections.append(_trade_off(results))
    for at, found in enumerate(comparisons):
        sections += _of_run(found, at, results["strongest_attack"])
    sections += [_method(results), _reproduce(results)]
    worst = next((c for c in comparisons if c["outcome"] in ("worse", "mixed")), comparisons[0])
    return Page(
        title=f"{', '.join(names[1:])} against {names[0]}",
        headline=[line for found in comparisons for line in found["sentences"]],
        facts=_facts(results),
        sections=sections,
        arrays={},
        limits=_LIMITS,
        gauge=_gauge(worst, results["strongest_attack"]),
        badge=_BADGES[worst["outcome"]],
    ).render()


def _facts(results: Results) -> list[tuple[str, str]]:
    first = results["runs"][0]
    facts = [
        ("Records", f"{first['records']:,} {first['records_name']}, sha256 {first['records_sha256'][:16]}"),
        ("Baseline", _run_in_words(first)),
    ]
    for run, found in zip(results["runs"][1:], results["comparisons"], strict=True):
        facts += [("Compared", _run_in_words(run)), ("What differs", differs_in_words(found))]
    return facts


def _run_in_words(run: Results) -> str:
    return (
        f"{run['name']}: {run['models']} models, {run['targets']} judged, seed {run['seed']}, "
        f"bank {run['bank_sha256'][:16]}"
    )


def _gauge(found: Results, attack: str) -> Gauge:
    """The change of the strongest attack's AUC; the scale is wide enough for its interval."""
    (row,) = (r for r in found["leakage"] if r["measure"] == "auc" and r["attack"] == attack)
    ends = [abs(row[name]) for name in ("difference", "low", "high") if row[name] is not None]
    reach = next((r for r in (0.01, 0.02, 0.05, 0.1, 0.2) if max(ends) <= r), 0.5)
    return Gauge(
        label=f"Change of the AUC ({attack}), {found['run']}",
        value=row["difference"],
        low=row["low"],
        high=row["high"],
        start=-reach,
        end=reach,
        reference=0.0,
        reference_label="no change",
    )


def _differences(results: Results) -> Section:
    comparisons = results["comparisons"]
    names, n_runs = [figure_name(row) for row in comparisons[0]["leakage"]], len(comparisons)
    zero = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, 0],
        "y": [-0.5, len(names) - 0.5],
        "line": {"color": "var(--muted)", "dash": "dash", "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    figure = {
        "data": [zero, *(_interval_trace(found, at, n_runs, names) for at, found in enumerate(comparisons))],
        "layout": {
            "xaxis": {"title": {"text": "difference to the baseline (right is worse)"}, "zeroline": False},
            "yaxis": {
                "tickvals": list(range(len(names))),
                "ticktext": [label(name) for name in names],
                "range": [len(names) - 0.5, -0.5],
                "automargin": True,
            },
            "showlegend": n_runs > 1,
            "hovermode": "closest",
        },
    }
    alt = "Difference of every leakage figure to the baseline, with 95% intervals; right of zero is worse."
    rows = [[found["run"], *row] for found in comparisons for row in leakage_rows(found)]
    numbers = Table(("run", *LEAKAGE_HEAD), rows, "All differences with their intervals")
    height = 110 + (22 + 12 * n_runs) * len(names)
    note = "Points with 95% intervals, each alone; outcomes go by the wider intervals in the tables below."
    body = chart("differences-chart", figure, alt, numbers, height)
    return Section("differences", "What changed", body, note)


def _interval_trace(found: Results, at: int, n_runs: int, names: list[str]) -> Results:
    """One run's differences; runs stand a little above each other."""
    rows, shift = found["leakage"], 0.7 * ((at + 0.5) / n_runs - 0.5)
    above = [0 if row["high"] is None else row["high"] - row["difference"] for row in rows]
    below = [0 if row["low"] is None else row["difference"] - row["low"] for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(found["run"]),
        "x": [row["difference"] for row in rows],
        "y": [place + shift for place in range(len(rows))],
        "text": [label(name) for name in names],
        "hovertemplate": "%{text}: %{x:+.4f}<extra></extra>",
        "marker": {"color": colour(at), "size": 9},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "color": colour(at),
        },
    }


def _trade_off(results: Results) -> Section:
    """Leakage against accuracy, a point a run."""
    comparisons, attack = results["comparisons"], results["strongest_attack"]
    aucs = [next(r for r in found["leakage"] if r["measure"] == "auc" and r["attack"] == attack)
            for found in comparisons]  # fmt: skip
    right = [found["accuracy"]["nonmembers"] for found in comparisons]
    x = [right[0]["baseline"], *(row["other"] for row in right)]
    y = [aucs[0]["baseline"], *(row["other"] for row in aucs)]
    names = [run["name"] for run in results["runs"]]
    points = zip(names, x, y, strict=True)
    figure = {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(name),
                "x": [accuracy],
                "y": [auc],
                "marker": {"color": colour(at), "size": 12},
            }
            for at, (name, accuracy, auc) in enumerate(points)
        ],
        "layout": {
            "xaxis": {"title": {"text": "accuracy on records not trained on (right is better)"}},
            "yaxis": {"title": {"text": f"AUC of {attack} (lower is better)"}},
            "showlegend": True,
        },
    }
    rows = [[n, f"{a:.4f}", f"{b:.4f}"] for n, a, b in zip(names, x, y, strict=True)]
    numbers = Table(("run", "accuracy", "AUC"), rows, "Accuracy and AUC of every run")
    alt = (
        "Each run as a point: accuracy on records it was not trained on, and the AUC of the strongest attack."
    )
    return Section("trade-off", "Leakage against accuracy", chart("trade-off-chart", figure, alt, numbers))


def _of_run(found: Results, at: int, attack: str) -> list[Section]:
    parts = [paragraphs(found["sentences"]), table(LEAKAGE_HEAD, leakage_rows(found), "Leakage")]
    parts += [table(("", *PLAIN_HEAD), rows, title) for title, rows in accuracy_table(found)]
    parts.append(_records(found))
    groups = group_tables(found, attack)
    parts += [table(("group", *PLAIN_HEAD), rows, title) for title, rows in groups]
    if not groups:
        parts.append(paragraphs(["Groups are not compared: the runs have none in common."]))
    return [Section(f"run-{at}", found["run"], Markup("").join(parts))]


def _records(found: Results) -> Markup:
    records = found["records"]
    if not records:
        return paragraphs(["Single records are not compared: that needs several models in every run."])
    both, n = records["exposed_both"], records["records"]
    share = records["share_difference"]
    rows = [
        ["exposed in both", f"{both:,}", f"{both / n:.1%}"],
        ["exposed in the baseline only", f"{records['exposed_baseline'] - both:,}",
         f"{(records['exposed_baseline'] - both) / n:.1%}"],
        ["exposed in this run only", f"{records['exposed_other'] - both:,}",
         f"{(records['exposed_other'] - both) / n:.1%}"],
        ["less exposed, beyond chance", f"{records['less_exposed']:,}", f"{records['less_exposed'] / n:.1%}"],
        ["more exposed, beyond chance", f"{records['more_exposed']:,}", f"{records['more_exposed'] / n:.1%}"],
    ]  # fmt: skip
    caption = (
        f"Single records; share exposed {share['value']:+.1%} (95% interval {share['low']:+.1%} to "
        f"{share['high']:+.1%} over records, models as given). records.parquet lists them."
    )
    return table(("records", "number", "share"), rows, caption)


def _method(results: Results) -> Section:
    return Section("method", "How this was computed", paragraphs(conventions(results)))


def _reproduce(results: Results) -> Section:
    runs = " ".join(run["name"] for run in results["runs"])
    lines = [f"leakscope compare {runs}", "leakscope verify recomputes every number from the runs' banks."]
    return Section("reproduce", "How to reproduce", paragraphs(lines))
