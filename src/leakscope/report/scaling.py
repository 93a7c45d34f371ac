"""The scaling study's report.md and four figures, from its results alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakscope.bank.storage import write_bytes
from leakscope.report.figures import COLOURS, MARKERS, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ATTACK_NAMES = {
    "shokri": "shadow models (logistic regression)",
    "correctness": "correctness",
    "loss": "loss threshold",
    "lira": "LiRA, fixed variance",
}

PUBLISHED = {  # width -> train accuracy, test accuracy, gap, attack AUC of the document's table
    16: (0.901, 0.667, 0.235, 0.516),
    32: (0.953, 0.680, 0.273, 0.529),
    64: (0.995, 0.665, 0.329, 0.541),
    128: (1.000, 0.656, 0.344, 0.527),
    256: (1.000, 0.645, 0.355, 0.544),
}


BESIDE_PUBLISHED = ("width", "train acc", "test acc", "gap", "attack AUC")
TABLE_NOTE = "Mean ± sd (ddof 0) over repeats. AUC 0.5 is guessing; the gap is train minus test accuracy."
ANSWER_NOTE = (
    "Intervals resample repeats, which keeps a repeat's models at all widths together. Partial correlations "
    "hold the other predictor fixed. Correctness has AUC 0.5 + gap / 2 exactly, so its line is a check, not "
    "a finding."
)
CONVENTIONS = (
    "Classes have standard deviation 1.5 around centres drawn from N(0, I).",
    "The shadow attack is a logistic regression on the softmax vector, without the label.",
    "LiRA fits Gaussians to the log-odds over the target's reference models: one mean a record, one variance "
    "a side.",
    "ROC ties are exact. Parameters are counted with biases.",
)


def write_report(results: dict[str, Any], out: Path) -> None:
    """report.md, report.html and figures/*.png of a study folder."""
    from leakscope.report.html.scaling import write_page

    write_bytes(out / "report.md", markdown(results).encode())
    for name, draw in _DRAWINGS.items():
        with figure(out / "figures" / f"{name}.png") as axes:
            draw(axes, results)
    with figure(out / "figures" / "summary_plots.png", 13, 8.4, panels=(2, 2)) as panels:
        for axes, draw in zip(panels, (*_DRAWINGS.values(), _accuracy_against_size), strict=True):
            draw(axes, results)
    write_page(out)


def markdown(results: dict[str, Any]) -> str:
    """The report as Markdown."""
    answers = results["gap_or_size"]
    sections = [
        ["# Membership leakage against model width", "", setting_words(results)],
        _table(results),
        [TABLE_NOTE],
        _beside_published(results),
        ["## Correlations over width means"],
        [f"- {correlation_words(c)}" for c in results["correlations"].values()],
        ["## Gap or size: which predicts attack success?"],
        [f"- {found['answer']}" for found in answers.values()],
        [f"- {partial_words(name, found)}" for name, found in answers.items()],
        [ANSWER_NOTE],
        ["## Figures"],
        [f"![{name}](figures/{name}.png)" for name in (*_DRAWINGS, "summary_plots")],
        ["## Conventions"],
        [f"- {line}" for line in CONVENTIONS],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def setting_words(results: dict[str, Any]) -> str:
    """What was trained, in one sentence."""
    c = results["config"]
    lines = [
        f"{results['runtime']['n_models']:,} MLPs (Linear-ReLU-Linear; Adam, rate 0.01, batch 64, 50 epochs)",
        f"on {c['n_classes']} Gaussian classes in {c['n_features']} dimensions: {c['n_samples']} records,",
        f"{c['train_fraction']:.0%} of them members; {c['n_repeats']} repeats, {c['n_shadow']} shadow",
        f"models (class centres: {c['shadow_data']}) and {c['n_reference']} reference models a target;",
        f"target records over repeats: {c['target_data']}; seed {c['seed']}.",
    ]
    return "\n".join(lines)


def _table(results: dict[str, Any]) -> list[str]:
    head = table_head(results)
    rows = ["| " + " | ".join(head) + " |", "|" + "---:|" * len(head)]
    return rows + ["| " + " | ".join(cells) + " |" for cells in table_rows(results)]


def table_head(results: dict[str, Any]) -> list[str]:
    """Headings of the table of widths."""
    return ["width", "parameters", "train acc", "test acc", "gap", *(f"{a} AUC" for a in _attacks(results))]


def table_rows(results: dict[str, Any]) -> list[list[str]]:
    """One row of text a width."""
    return [
        [
            f"{row['hidden_width']}",
            f"{row['n_params']:,}",
            f"{row['mean_train_acc']:.3f}",
            f"{row['mean_test_acc']:.3f}",
            f"{row['mean_overfit_gap']:.3f} ± {row['std_overfit_gap']:.3f}",
            *(f"{found['mean_auc']:.3f} ± {found['std_auc']:.3f}" for found in row["attacks"].values()),
        ]
        for row in results["results"]
    ]


def _attacks(results: dict[str, Any]) -> list[str]:
    return list(results["results"][0]["attacks"])


def _beside_published(results: dict[str, Any]) -> list[str]:
    """The document's table and our difference from it, where the protocol is the published one."""
    if not is_published(results):
        return []
    lines = ["", "Published values, and ours minus theirs:", "",
             "| " + " | ".join(BESIDE_PUBLISHED) + " |", "|---:|---:|---:|---:|---:|"]  # fmt: skip
    return lines + ["| " + " | ".join(cells) + " |" for cells in published_rows(results)]


def published_rows(results: dict[str, Any]) -> list[list[str]]:
    """One row of text a width: the published values, and ours minus theirs in brackets."""
    rows = []
    for row in results["results"]:
        ours = (row["mean_train_acc"], row["mean_test_acc"], row["mean_overfit_gap"], row["mean_attack_auc"])
        theirs = PUBLISHED[row["hidden_width"]]
        cells = [f"{t:.3f} ({o - t:+.3f})" for o, t in zip(ours, theirs, strict=True)]
        rows.append([f"{row['hidden_width']}", *cells])
    return rows


def is_published(results: dict[str, Any]) -> bool:
    """Whether the results can stand beside the document's table."""
    from leakscope.studies.scaling import config_from

    return config_from(results["config"]).is_published_protocol


def correlation_words(c: dict[str, Any]) -> str:
    """A correlation with its interval, in words."""
    if c["r"] is None:
        return f"{c['description']}: undefined (too few widths, or a constant)"
    return f"{c['description']}: r = {c['r']:.3f}{_interval(c)}, p = {c['p']:.3g}"


def partial_words(name: str, found: dict[str, Any]) -> str:
    """Both partial correlations of an attack, in words."""
    gap, size = found["partial_r_gap_given_size"], found["partial_r_size_given_gap"]
    return f"Partial correlations, {ATTACK_NAMES[name]}: gap given size {_r(gap)}; size given gap {_r(size)}."


def _r(c: dict[str, Any]) -> str:
    return "undefined" if c["r"] is None else f"{c['r']:.3f}{_interval(c)}"


def _interval(c: dict[str, Any]) -> str:
    return "" if c["low"] is None else f" (95% interval {c['low']:.3f} to {c['high']:.3f})"


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
