"""A comparison's report.md, figure and page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakscope.compare.words import figure_name
from leakscope.disk.storage import write_bytes
from leakscope.report.figures import COLOURS, MARKERS, figure

Results = dict[str, Any]

LEAKAGE_HEAD = ("leakage", "baseline", "this run", "difference", "95% interval", "all at once", "outcome")
PLAIN_HEAD = ("baseline", "this run", "difference", "95% interval")


def write_report(results: Results, folder: Path) -> None:
    """report.md, figures/differences.png and report.html of a comparison's folder."""
    from leakscope.compare.page import write_page

    write_bytes(folder / "report.md", markdown(results).encode())
    _draw(results, folder / "figures" / "differences.png")
    write_page(results, folder)


def markdown(results: Results) -> str:
    """The report as Markdown."""
    baseline = results["runs"][0]["name"]
    lines = [f"# Did it help? Compared with {_cell(baseline)}", ""]
    for found in results["comparisons"]:
        lines += [f"## {_cell(found['run'])}", "", *found["sentences"], ""]
        lines += [f"What differs in the recipe: {_cell(differs_in_words(found))}.", ""]
        lines += [*_table(LEAKAGE_HEAD, leakage_rows(found)), ""]
        for title, rows in (*accuracy_table(found), *group_tables(found, results["strongest_attack"])):
            lines += [f"### {_cell(title)}", "", *_table(("", *PLAIN_HEAD), rows), ""]
    lines += ["![Differences](figures/differences.png)", "", *conventions(results), ""]
    return "\n".join(lines)


def conventions(results: Results) -> list[str]:
    """How the figures are made, one sentence each."""
    intervals, left_out = results["intervals"], results["left_out"]
    methods = dict.fromkeys(row["method"] for found in results["comparisons"] for row in found["leakage"])
    lines = [
        f"Differences are this run minus {results['runs'][0]['name']}; more leakage is worse.",
        f"Each 95% interval stands alone. 'All at once': {intervals['leakage_figures']} leakage figures "
        f"together, {intervals['simultaneous_level']:.2%} each ({intervals['adjusted']}); the outcome, and "
        "the exit code, go by these.",
        f"Intervals: {'; '.join(methods)}.",
        "They say what these runs show about these records; other records or attackers may differ.",
    ]
    missing = [str(item) for part in left_out.values() for item in part]
    if missing:
        lines.append(f"Not compared, because some run lacks it or cannot resolve it: {', '.join(missing)}.")
    return lines


def differs_in_words(found: Results) -> str:
    """What differs between two recipes."""
    return "; ".join(found["differs"]) if found["differs"] else "nothing"


def leakage_rows(found: Results) -> list[list[str]]:
    """One row of text a leakage figure, in the order of `LEAKAGE_HEAD`."""
    return [
        [figure_name(row), *_difference_cells(row), _interval(row, "simultaneous_"), row["outcome"]]
        for row in found["leakage"]
    ]


def accuracy_table(found: Results) -> list[tuple[str, list[list[str]]]]:
    """Title and rows of the accuracies; none where they are unknown."""
    if not found["accuracy"]:
        return []
    names = {"members": "of its members", "nonmembers": "of the others"}
    rows = [[names[side], *_difference_cells(row)] for side, row in found["accuracy"].items()]
    return [("Accuracy: the cost", rows)]


def group_tables(found: Results, attack: str) -> list[tuple[str, list[list[str]]]]:
    """Title and rows of each column of groups."""
    return [
        (f"AUC by {column} ({attack})", [[row["group"], *_difference_cells(row)] for row in rows])
        for column, rows in found["groups"].items()
    ]


def _difference_cells(row: Results) -> list[str]:
    """Baseline, this run, difference, 95% interval."""
    if row["difference"] is None:
        return [_number(row["baseline"]), _number(row["other"]), "too few records", ""]
    return [_number(row["baseline"]), _number(row["other"]), f"{row['difference']:+.4f}", _interval(row)]


def _interval(row: Results, kind: str = "") -> str:
    low, high = row[f"{kind}low"], row[f"{kind}high"]
    return "none" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_row(headings), "|" + "---|" * len(headings), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    """Text from data on one line, where no character of it means anything to Markdown's tables or HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _draw(results: Results, path: Path) -> None:
    """Every leakage difference with its two intervals, a line each."""
    rows = results["comparisons"][0]["leakage"]
    with figure(path, 7.2, 1.6 + 0.32 * len(rows)) as axes:
        for at, found in enumerate(results["comparisons"]):
            _draw_run(axes, found, at, len(results["comparisons"]))
        axes.axvline(0, color="#888888", linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(rows)), [figure_name(row) for row in rows])
        axes.invert_yaxis()
        n_targets = results["runs"][0]["targets"]
        axes.set_xlabel(f"difference to the baseline, right is worse (n = {n_targets} targets a run)")
        axes.set_title("What changed: 95% alone (thick), all figures at once (thin)")
        axes.legend(loc="best", fontsize=9)


def _draw_run(axes: Any, found: Results, at: int, n: int) -> None:
    colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
    shift = 0.6 * ((at + 0.5) / n - 0.5)
    for place, row in enumerate(found["leakage"]):
        label = found["run"] if place == 0 else None
        axes.plot([row["difference"]], [place + shift], marker, color=colour, label=label, markersize=5)
        if row["low"] is not None:
            axes.plot([row["low"], row["high"]], [place + shift] * 2, color=colour, linewidth=2.2)
            axes.plot(
                [row["simultaneous_low"], row["simultaneous_high"]],
                [place + shift] * 2,
                color=colour,
                linewidth=0.8,
            )
