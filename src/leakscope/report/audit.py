"""An audit's report.md and ROC figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leakscope.bank.storage import write_bytes
from leakscope.judge import Judged
from leakscope.report.audit_sections import (
    attacker_section,
    calibrated_section,
    epsilon_section,
    groups_section,
    hygiene_section,
    leakage_section,
)
from leakscope.report.figures import COLOURS, figure
from leakscope.stats.roc import roc
from leakscope.types import BoolArray, FloatArray
from leakscope.verdict import Verdict


def write_report(results: dict[str, Any], judged: Judged, folder: Path) -> None:
    """report.md and figures/roc.png of a run folder."""
    write_bytes(folder / "report.md", markdown(Verdict(results, folder)).encode())
    _draw_roc(results, judged, folder / "figures" / "roc.png")


def markdown(verdict: Verdict) -> str:
    """The report as Markdown."""
    results = verdict.results
    headings, rows = attack_rows(results)
    population = results["population"]
    recipe = ", ".join(f"{k} {v}" for k, v in population["recipe"].items() if v not in (None, [], {}))
    lines = [
        "# What the models give away",
        "",
        *verdict.words(),
        "",
        "| " + " | ".join(headings) + " |",
        "|---|" + "---:|" * (len(headings) - 1),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        f"{_intervals_in_words(population['targets'])} TPR is at the best threshold whose FPR is within the",
        "budget, chosen on the target itself. ROC ties are exact.",
        *unresolvable(results),
        "",
        "![ROC](figures/roc.png)",
        "",
        *hygiene_section(results),
        *attacker_section(results),
        *calibrated_section(results),
        *epsilon_section(results),
        *leakage_section(results),
        *groups_section(results, verdict.strongest_attack),
        f"Seed {population['seed']}; records sha256 {population['records_sha256'][:16]}; recipe: {recipe}.",
        "",
    ]
    return "\n".join(lines)


def _intervals_in_words(n_targets: int) -> str:
    if n_targets > 1:
        return f"Mean over {n_targets} targets ± half of its 95% t interval over targets."
    return (
        "One target ± half of its 95% interval over records: DeLong (AUC), Dvoretzky-Kiefer-Wolfowitz "
        "(advantage), Clopper-Pearson (TPR)."
    )


def attack_rows(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and one row of text an attack: mean over targets ± half of its interval."""
    budgets = [point["fpr"] for point in next(iter(results["attacks"].values()))["tpr_at_fpr"]]
    headings = ["attack", "AUC", "advantage", *(f"TPR at {100 * budget:g}% FPR" for budget in budgets)]
    rows = [
        [name, _number(f["auc"]), _number(f["advantage"]), *(_percent(point) for point in f["tpr_at_fpr"])]
        for name, f in results["attacks"].items()
    ]
    return headings, rows


def unresolvable(results: dict[str, Any]) -> list[str]:
    """Why some cells have no number, one line a reason."""
    points = [p for figures in results["attacks"].values() for p in figures["tpr_at_fpr"]]
    return [f"Not resolvable: {reason}." for reason in sorted({p["reason"] for p in points if p["reason"]})]


def _number(found: dict[str, Any]) -> str:
    if found["low"] is None:
        return f"{found['value']:.3f}"
    return f"{found['value']:.3f} ± {(found['high'] - found['low']) / 2:.3f}"


def _percent(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "not resolvable"
    if found["low"] is None:
        return f"{100 * found['value']:.1f}%"
    return f"{100 * found['value']:.1f} ± {50 * (found['high'] - found['low']):.1f}%"


def _draw_roc(results: dict[str, Any], judged: Judged, path: Path) -> None:
    """Mean ROC over targets on log axes, with the spread over targets as a band."""
    in_mask = judged.design.in_mask[next(iter(judged.scores.values())).targets]
    smallest = 1 / int((~in_mask).sum(axis=1).min())
    grid = np.geomspace(smallest, 1, 200)
    with figure(path, 5.2, 4.8) as axes:
        for name, colour in zip(results["attacks"], COLOURS, strict=False):
            scores = judged.scores[name]
            curves = np.stack([_tpr_on_grid(s, m, grid) for s, m in zip(scores.values, in_mask, strict=True)])
            low, high = np.quantile(curves, [0.05, 0.95], axis=0)
            auc = results["attacks"][name]["auc"]["value"]
            if len(np.unique(scores.values)) == 2:  # yes or no: one point says it
                axes.plot(
                    *_yes_rates(scores.values, in_mask),
                    "D",
                    color=colour,
                    label=f"{name} (AUC {auc:.3f})",
                )
                continue
            axes.plot(grid, curves.mean(axis=0), color=colour, label=f"{name} (AUC {auc:.3f})")
            axes.fill_between(grid, np.maximum(low, 1e-5), high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(grid, grid, color="#888888", linewidth=0.9, linestyle="--", label="guessing")
        axes.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1.05))
        axes.set_xlabel("false positive rate")
        of_targets = f" (mean of {len(in_mask)} targets, band 5% to 95%)" if len(in_mask) > 1 else ""
        axes.set_ylabel(f"true positive rate{of_targets}")
        axes.set_title("Who can be told from the model's answers")
        axes.legend(loc="lower right", fontsize=9)


def _yes_rates(scores: FloatArray, in_mask: BoolArray) -> tuple[float, float]:
    """(FPR, TPR) of an attack that only says yes or no, over all targets."""
    yes = scores == scores.max()
    return float(yes[~in_mask].mean()), float(yes[in_mask].mean())


def _tpr_on_grid(scores: FloatArray, in_mask: BoolArray, grid: FloatArray) -> FloatArray:
    curve = roc(scores, in_mask)
    return curve.tpr[np.searchsorted(curve.fpr, grid * (1 + 1e-12), side="right") - 1]
