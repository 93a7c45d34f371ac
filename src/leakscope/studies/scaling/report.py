"""The scaling study's report.md, from its results alone; its figures are in `scaling_figures`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.disk.storage import write_bytes

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
    from leakscope.studies.scaling.figures import write_figures
    from leakscope.studies.scaling.page import write_page

    drawn = write_figures(results, out / "figures")
    write_bytes(out / "report.md", markdown(results, drawn).encode())
    write_page(out)


def markdown(results: dict[str, Any], drawn: list[str]) -> str:
    """The report as Markdown; `drawn` names its figures."""
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
        [f"![{name}](figures/{name}.png)" for name in drawn],
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
    from leakscope.studies.scaling.study import config_from

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
