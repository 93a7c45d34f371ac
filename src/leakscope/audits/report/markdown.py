"""An audit's report.md, ROC figure and report.html."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.audits.report.page import write_page
from leakscope.audits.report.sections import (
    attacker_section,
    calibrated_section,
    epsilon_section,
    groups_section,
    hygiene_section,
    leakage_section,
)
from leakscope.audits.report.table import attack_rows, intervals_in_words, unresolvable
from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.evaluate.verdict import Verdict
from leakscope.report.figures import COLOURS, figure
from leakscope.report.roc_bands import RocBand, roc_bands
from leakscope.types import Design, Scores


def write_report(
    results: dict[str, Any],
    design: Design,
    scores: Mapping[str, Scores],
    folder: Path,
    disclosure: Disclosure,
) -> None:
    """report.md, figures/roc.png and report.html of a run folder that has all else.

    Args:
        results: the content of results.json.
        design: of the models that did not diverge.
        scores: attack -> its scores.
        folder: the run folder.
        disclosure: what report.html may tell about single records; the others tell nothing.
    """
    bands = roc_bands({name: scores[name] for name in results["attacks"]}, design)
    write_bytes(folder / "report.md", markdown(Verdict(results, folder)).encode())
    _draw_roc(results, bands, folder / "figures" / "roc.png")
    write_page(results, design, scores, bands, folder, disclosure)


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
        f"{intervals_in_words(population['targets'])} TPR is at the best threshold whose FPR is within the",
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


def _draw_roc(results: dict[str, Any], bands: dict[str, RocBand], path: Path) -> None:
    """Mean ROC over targets on log axes, with the spread over targets as a band."""
    smallest, n_targets = min(band.fpr[0] for band in bands.values()), results["population"]["targets"]
    with figure(path, 5.2, 4.8) as axes:
        for name, colour in zip(results["attacks"], COLOURS, strict=False):
            band, auc = bands[name], results["attacks"][name]["auc"]["value"]
            label = f"{name} (AUC {auc:.3f})"
            if band.yes is not None:  # yes or no: one point says it
                axes.plot(*band.yes, "D", color=colour, label=label)
                continue
            axes.plot(band.fpr, band.mean, color=colour, label=label)
            axes.fill_between(
                band.fpr, np.maximum(band.low, 1e-5), band.high, color=colour, alpha=0.15, linewidth=0
            )
        axes.plot(
            [smallest, 1], [smallest, 1], color="#888888", linewidth=0.9, linestyle="--", label="guessing"
        )
        axes.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1.05))
        axes.set_xlabel("false positive rate")
        of_targets = f" (mean of {n_targets} targets, band 5% to 95%)" if n_targets > 1 else ""
        axes.set_ylabel(f"true positive rate{of_targets}")
        axes.set_title("Who can be told from the model's answers")
        axes.legend(loc="lower right", fontsize=9)
