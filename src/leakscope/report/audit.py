"""An audit's report.md and ROC figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leakscope.attacks.registry import ATTACKS
from leakscope.bank.bank import Bank
from leakscope.bank.storage import write_bytes
from leakscope.judge import living
from leakscope.report.figures import COLOURS, figure
from leakscope.stats.roc import roc
from leakscope.verdict import Verdict


def write_report(results: dict[str, Any], bank: Bank, folder: Path) -> None:
    """report.md and figures/roc.png of a run folder."""
    write_bytes(folder / "report.md", markdown(Verdict(results, folder)).encode())
    _draw_roc(results, bank, folder / "figures" / "roc.png")


def markdown(verdict: Verdict) -> str:
    """The report as Markdown."""
    results = verdict.results
    budgets = [p["fpr"] for p in next(iter(results["attacks"].values()))["tpr_at_fpr"]]
    head = ["attack", "AUC", "advantage", *(f"TPR at {b:g} FPR" for b in budgets)]
    lines = ["# What the models give away", "", *verdict.words(), "",
             "| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]  # fmt: skip
    for name, figures in results["attacks"].items():
        cells = [figures["auc"], figures["advantage"], *figures["tpr_at_fpr"]]
        lines.append(f"| {name} | " + " | ".join(_cell(c) for c in cells) + " |")
    recipe = ", ".join(
        f"{k} {v}" for k, v in results["population"]["recipe"].items() if v not in (None, [], {})
    )
    lines += [
        "",
        f"Mean over {results['population']['models']} targets with its 95% t interval over targets. TPR is at the best "
        "threshold whose FPR is within the budget, chosen on the target itself. ROC ties are exact.",
        "",
        "![ROC](figures/roc.png)",
        "",
        f"Seed {results['population']['seed']}; records sha256 {results['population']['records_sha256'][:16]}; recipe: {recipe}.",
        "",
    ]
    return "\n".join(lines)


def _cell(figure_: dict[str, Any]) -> str:
    if figure_["value"] is None:
        return "not resolvable"
    return f"{figure_['value']:.3f} ({figure_['low']:.3f} to {figure_['high']:.3f})"


def _draw_roc(results: dict[str, Any], bank: Bank, path: Path) -> None:
    """Mean ROC over targets on log axes, with the spread over targets as a band."""
    signals, design = living(bank)
    smallest = 1 / int((~design.in_mask).sum(axis=1).min())
    grid = np.geomspace(smallest, 1, 200)
    with figure(path, 5.2, 4.8) as axes:
        for name, colour in zip(results["attacks"], COLOURS, strict=False):
            scores = ATTACKS[name]()(signals, design)
            curves = np.stack(
                [_tpr_on_grid(s, m, grid) for s, m in zip(scores.values, design.in_mask, strict=True)]
            )
            low, high = np.quantile(curves, [0.05, 0.95], axis=0)
            auc = results["attacks"][name]["auc"]["value"]
            axes.plot(grid, curves.mean(axis=0), color=colour, label=f"{name} (AUC {auc:.3f})")
            axes.fill_between(grid, np.maximum(low, 1e-5), high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(grid, grid, color="#888888", linewidth=0.9, linestyle="--", label="guessing")
        axes.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1.05))
        axes.set_xlabel("false positive rate")
        axes.set_ylabel(f"true positive rate (mean of {design.n_models} targets, band 5% to 95%)")
        axes.set_title("Who can be told from the model's answers")
        axes.legend(loc="lower right", fontsize=9)


def _tpr_on_grid(scores: np.ndarray, in_mask: np.ndarray, grid: np.ndarray) -> np.ndarray:
    curve = roc(scores, in_mask)
    return curve.tpr[np.searchsorted(curve.fpr, grid * (1 + 1e-12), side="right") - 1]
