"""The dynamics study's report.md, from its results alone; its figures are in `dynamics_figures`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report.tables import markdown_table
from leakscope.studies.dynamics.figures import draw_comparison, draw_run

if TYPE_CHECKING:
    from leakscope.studies.dynamics.judge import JudgedRun

SUMMARY = ("figure", "measured", "± standard error", "noise floor", "floor's range")
COMPARED = ("run", "advantage", "vulnerable", "centre", "path", "entropy", "peak entry", "an epoch", "70% by")
COMPARED_NOTE = (
    "Advantage and vulnerable records at the end; way of the centre of mass, net and along its path, in % of "
    "the side; change of entropy in bits; peak probability to enter the corner, a checkpoint and an epoch; "
    "epoch by which 70% of the finally vulnerable were."
)
RATIOS = ("published finding", "ours", "± standard error", "above the floors", "published")
RATIO_NOTE = "Two values stand where a ratio would cross zero. Above the floors: each less its noise floor."
HARDNESS = ("hardness", "Pearson r", "Spearman", "r among the vulnerable", "partial, loss held fixed")

_SCALARS = {  # figure -> (words, factor, unit, decimals)
    "net_displacement": ("centre of mass, net displacement", 1, "% of side", 1),
    "path_length": ("centre of mass, path length", 1, "% of side", 1),
    "entropy_change": ("spatial entropy, last minus first", 1, "bits", 2),
    "peak_entry": ("peak probability to enter the corner, a checkpoint", 100, "%", 1),
    "peak_entry_per_epoch": ("the same, an epoch", 100, "%", 2),
    "first_epoch": ("first epoch with 70% of the finally vulnerable", 1, "", 0),
}
_AT_THE_END = {
    "advantage": ("mean advantage at the end", 1, "", 3),
    "vulnerable": ("records in the vulnerable corner at the end", 100, "%", 1),
    "entropy": ("spatial entropy at the end", 1, "bits", 2),
}


def write_report(
    results: dict[str, Any], runs: list[JudgedRun], out: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE
) -> None:
    """report.md, report.html and figures/*.png of a study; with several runs, a folder of figures each.

    Args:
        results: of results.json.
        runs: the judged runs.
        out: the study's folder.
        disclosure: what report.html may tell of single records.
    """
    from leakscope.studies.dynamics.page import write_page

    drawn = {}
    for run in runs:
        folder = Path("figures") / (run.setting.name if len(runs) > 1 else "")
        drawn[run.setting.name] = [str(folder / name) for name in draw_run(run, out / folder)]
    if len(runs) > 1:
        draw_comparison(runs, out / "figures" / "comparison.png")
    write_bytes(out / "report.md", markdown(results, drawn).encode())
    write_page(out, disclosure, runs)


def markdown(results: dict[str, Any], drawn: dict[str, list[str]]) -> str:
    """The report as Markdown; `drawn` names each run's figures."""
    sections = [["# When records become exposed in training"]]
    if len(results["runs"]) > 1:
        sections += [
            ["## Comparison"],
            [*markdown_table(COMPARED, compared_rows(results)), "", COMPARED_NOTE],
            ratio_lines(results),
            ["![comparison](figures/comparison.png)"],
        ]
    for name, run in results["runs"].items():
        sections += [
            [f"## {name}"],
            words(run, results["published"]["early_share"]),
            markdown_table(SUMMARY, summary_rows(run)),
            [variation_words(run["advantage"])],
            hardness_lines(run, results["published"]["epistemic_r"]),
            [f"![{Path(path).stem}]({path})" for path in drawn[name]],
        ]
    sections += [population_lines(results), ["## Conventions"]]
    sections.append([f"- {name.capitalize()}: {text}." for name, text in results["conventions"].items()])
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def words(run: dict[str, Any], published_share: float | None = None) -> list[str]:
    """What was done and found, in sentences; `published_share`: of training, until 70% were there."""
    setting, population, figures = run["setting"], run["population"], run["figures"]
    members, others = (100 * run["accuracy"][side][-1] for side in ("members", "nonmembers"))
    end, floor = figures["vulnerable"]["value"][-1], figures["vulnerable"]["floor"]["mean"][-1]
    lines = [
        f"{population['models']} models ({setting['net']}, {setting['optimizer']}, {setting['epochs']} "
        f"epochs) on random halves of {population['records']:,} records of {setting['dataset']} get "
        f"{members:.1f}% of their members and {others:.1f}% of the others right.",
        f"At the end {100 * end:.1f}% of the records are in the vulnerable corner; by chance "
        f"{100 * floor:.1f}% would be.",
    ]
    first = figures["first_epoch"]["value"]
    if first is not None and len(run["epochs"]) > 1:
        beside = (
            "" if published_share is None else f" (published: after {100 * published_share:.0f}% of training)"
        )
        lines.append(f"70% of them were there by epoch {first:.0f} of {setting['epochs']}{beside}.")
    if population["lost_models"]:
        lines.append(f"{population['lost_models']} models diverged and are left out.")
    if population["judged_records"] < population["records"]:
        missing = population["records"] - population["judged_records"]
        lines.append(f"{missing:,} records have no IN or no OUT model and are not judged.")
    return [*lines, *run["undefined"]]


def summary_rows(run: dict[str, Any]) -> list[list[str]]:
    """One row a figure: value, standard error, noise floor."""
    rows = [
        _summary_row(spec, *(_last(run["figures"][name], part) for part in _PARTS))
        for name, spec in _AT_THE_END.items()
    ]
    if len(run["epochs"]) > 1:
        rows += [
            _summary_row(spec, *(_part(run["figures"][name], part) for part in _PARTS))
            for name, spec in _SCALARS.items()
        ]
    return rows


def compared_rows(results: dict[str, Any], with_errors: bool = True) -> list[list[str]]:
    """One row a run: the figures that are compared."""
    rows = []
    for name, run in results["runs"].items():
        figures = run["figures"]
        cells = [
            _number(_last(figures[key], "value"), _last(figures[key], "standard_error"), spec, with_errors)
            for key, spec in list(_AT_THE_END.items())[:2]
        ]
        cells += [
            _number(figures[key]["value"], figures[key]["standard_error"], spec, with_errors)
            for key, spec in _SCALARS.items()
        ]
        rows.append([name, *cells])
    return rows


def ratio_rows(results: dict[str, Any]) -> list[list[str]]:
    """One row a published ratio."""
    return [
        [
            row["says"],
            _plain(row["ratio"], _values(row)),
            _plain(row["ratio_standard_error"], ""),
            _plain(row["ratio_above_floor"], "undefined"),
            _plain(row["published_ratio"], "{:g} and {:g}".format(*row["published_values"])),
        ]
        for row in results["comparison"]
    ]


def ratio_lines(results: dict[str, Any]) -> list[str]:
    """Our ratios beside the published ones."""
    if not results["comparison"]:
        return []
    return [
        *markdown_table(RATIOS, ratio_rows(results)),
        "",
        RATIO_NOTE,
    ]


def variation_words(advantage: dict[str, Any]) -> str:
    """How far the advantage moves, against what the published setup asks for."""
    if advantage["coefficient"] is None:
        return f"The advantage's coefficient of variation is undefined: {advantage['reason']}."
    one = advantage["vulnerable_coefficient"]
    single = "" if one is None else f"; of a single vulnerable record, in the median, {one:.2f}"
    return (
        f"Mean advantage at the end {advantage['mean']:.3f} ± {advantage['standard_error']:.3f} "
        f"({advantage['method']}): coefficient of variation {advantage['coefficient']:.3f}{single} "
        f"(the published setup asks for less than {advantage['wanted']:g})."
    )


def hardness_lines(run: dict[str, Any], published_r: float) -> list[str]:
    """Correlations of each measure of hardness with the advantage at the end."""
    if not run["hardness"]:
        return []
    return [*markdown_table(HARDNESS, hardness_rows(run)), "", hardness_note(published_r)]


def hardness_rows(run: dict[str, Any]) -> list[list[str]]:
    """One row a measure of hardness."""
    columns = ("pearson", "spearman", "among_vulnerable", "partial_given_loss")
    return [
        [name.replace("_", " "), *(_correlation(found[column]) for column in columns)]
        for name, found in run["hardness"].items()
    ]


def hardness_note(published_r: float) -> str:
    """What to compare the correlations with, and how far their intervals reach."""
    return (
        f"Published: r = {published_r:g} of epistemic uncertainty among the vulnerable (WRN-28 on CIFAR-10). "
        "Intervals take the records as independent and the models as given."
    )


def population_lines(results: dict[str, Any]) -> list[str]:
    """How far independent populations differ."""
    lines = []
    for name, found in results["populations"].items():
        lines.append(f"- {name}: " + variation_words({**found["advantage"], "method": found["method"]}))
    return ["## Independent populations", "", *lines] if lines else []


_PARTS = ("value", "standard_error", "mean", "low", "high")


def _part(found: dict[str, Any], part: str) -> Any:
    return found[part] if part in found else found["floor"][part]


def _last(found: dict[str, Any], part: str) -> Any:
    return _part(found, part)[-1]


def _summary_row(spec: Any, value: Any, error: Any, mean: Any, low: Any, high: Any) -> list[str]:
    words, factor, unit, decimals = spec

    def shown(number: Any) -> str:
        return "undefined" if number is None else f"{factor * number:.{decimals}f}"

    return [f"{words} ({unit})" if unit else words, shown(value), shown(error), shown(mean),
            "undefined" if low is None else f"{shown(low)} to {shown(high)}"]  # fmt: skip


def _number(value: Any, error: Any, spec: Any, with_error: bool) -> str:
    _, factor, unit, decimals = spec
    if value is None:
        return "undefined"
    percent = "%" if unit.startswith("%") else ""
    spread = "" if error is None or not with_error else f" ± {factor * error:.{decimals}f}"
    return f"{factor * value:.{decimals}f}{spread}{percent}"


def _plain(number: Any, otherwise: str) -> str:
    return otherwise if number is None else f"{number:.2f}"


def _values(row: dict[str, Any]) -> str:
    first, second = row["first"]["value"], row["second"]["value"]
    return "undefined" if first is None or second is None else f"{first:.3g} and {second:.3g}"


def _correlation(found: dict[str, Any]) -> str:
    if found["r"] is None:
        return f"undefined ({found['reason']})"
    return f"{found['r']:.3f} ({found['low']:.2f} to {found['high']:.2f})"
