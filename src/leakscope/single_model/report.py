"""Report and ROC figure of an attack on one given model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.bank.run_folder import stored_array
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report.figures import COLOURS, figure
from leakscope.report.tables import markdown_table
from leakscope.stats.roc import roc

HEADINGS = ("attacker", "AUC", "TPR at 5% FPR", "TPR, ties kept", "distinct scores, calibrated")


def write_report(
    results: dict[str, Any],
    folder: Path,
    more: list[str] | None = None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> None:
    """report.md, report.html and figures/roc.png.

    Args:
        results: of results.json.
        folder: the run's folder.
        more: lines that follow report.md's table.
        disclosure: what report.html may tell of single records.
    """
    from leakscope.single_model.page import write_page

    write_bytes(folder / "report.md", markdown(results, more or []).encode())
    draw_roc(results, folder)
    write_page(folder, disclosure)


def markdown(results: dict[str, Any], more: list[str]) -> str:
    """The report as Markdown."""
    lines = ["# Membership of private records, learned from public ones", "", *words(results), ""]
    lines += markdown_table(HEADINGS, validation_rows(results))
    lines += ["", *footnotes(results), "", *more, "![ROC](figures/roc.png)", ""]
    return "\n".join(lines)


def words(results: dict[str, Any]) -> list[str]:
    """What was done and found, in sentences."""
    chosen = results["attackers"][results["chosen"]]
    low, high = (100 * chosen["auc"][end] for end in ("low", "high"))
    split, names = results["split"], ", ".join(results["attackers"])
    lines = [
        f"{names}: learned from {split['training']:,} public records, judged on "
        f"{split['validation']:,} others.",
        f"{results['chosen']} ranks a member above a non-member {100 * chosen['auc']['value']:.1f}% "
        f"of the time (95% interval {low:.1f}% to {high:.1f}%; guessing gives 50%).",
    ]
    if len(results["attackers"]) > 1:
        lines.append("It was chosen for its validation AUC, so that figure is slightly flattering.")
    lines.append(f"Its scores of {results['private']['records']:,} private records are in submission.csv.")
    return lines


def validation_rows(results: dict[str, Any]) -> list[list[str]]:
    """One row of text an attacker."""
    return [
        [
            name,
            with_interval(found["auc"]),
            percent(found["tpr_at_fpr"]),
            percent(found["with_ties"]["tpr_at_fpr"], bare=True),
            f"{found['distinct_scores']:,}, {found['distinct_calibrated']:,}",
        ]
        for name, found in results["attackers"].items()
    ]


def footnotes(results: dict[str, Any]) -> list[str]:
    """What a reader of the table must know."""
    points = [found["tpr_at_fpr"] for found in results["attackers"].values()]
    stopped = [name for name, found in results["attackers"].items() if found["stopped_early"]]
    return [
        "AUC: DeLong's 95% interval. TPR: Clopper-Pearson, at a threshold chosen on the same records. "
        + results["ties"],
        *(f"Not resolvable: {reason}." for reason in sorted({p["reason"] for p in points if p["reason"]})),
        *(f"{name} reached its last iteration before it settled, as published." for name in stopped),
    ]


def with_interval(found: dict[str, Any]) -> str:
    """A figure with its interval."""
    if found["value"] is None:
        return "undefined"
    return f"{found['value']:.4f} ({found['low']:.4f} to {found['high']:.4f})"


def percent(found: dict[str, Any], bare: bool = False) -> str:
    """A rate in percent, with its interval unless bare."""
    if found["value"] is None:
        return "not resolvable"
    value = f"{100 * found['value']:.2f}%"
    return value if bare else f"{value} ({100 * found['low']:.2f} to {100 * found['high']:.2f})"


def draw_roc(results: dict[str, Any], folder: Path) -> None:
    """Validation ROC of every attacker on log axes."""
    is_member = stored_array(folder / "validation" / "is_member.npy").astype(bool)
    smallest = 1 / max(1, int((~is_member).sum()))
    with figure(folder / "figures" / "roc.png", 5.2, 4.8) as axes:
        for (name, found), colour in zip(results["attackers"].items(), COLOURS, strict=False):
            score = stored_array(folder / "validation" / f"{name}.npy")[0]
            curve = roc(score, is_member)
            label = f"{name} (AUC {found['auc']['value']:.3f})"
            axes.step(curve.fpr, curve.tpr, where="post", color=colour, label=label)
        axes.plot(
            [smallest, 1], [smallest, 1], color="#888888", linewidth=0.9, linestyle="--", label="guessing"
        )
        axes.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1.05))
        axes.set_xlabel("false positive rate")
        axes.set_ylabel(f"true positive rate ({len(is_member):,} validation records)")
        axes.set_title("Who can be told from the model's answers")
        axes.legend(loc="lower right", fontsize=9)
