"""Writes the reports of an audit: report.md, the ROC figure and report.html."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from leakscope.audits.report.cells import (
    CALIBRATED_TEXT,
    attack_table,
    calibrated_table,
    epsilon_table,
    epsilon_text,
    group_reasons,
    group_table,
    hygiene_table,
    leakage_table,
    leakage_text,
    no_interval_sentences,
    precision_table,
    unmeasurable,
    why_no_bits,
)
from leakscope.audits.report.page import write_page
from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.evaluate.judge import Attacked
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.sentences import seeds_text, summary, title
from leakscope.report.figures import COLOURS, figure
from leakscope.report.roc_bands import RocBand, roc_bands
from leakscope.report.tables import Table, markdown_table


def write_report(results: AuditResults, attacked: Attacked, disclosure: Disclosure) -> None:
    """report.md, figures/roc.png and report.html of a run folder that holds everything else.

    Args:
        results: the content of results.json.
        attacked: signals, design and scores behind them; its bank is in the run folder.
        disclosure: what report.html may reveal about single records; the other files reveal nothing.
    """
    folder = attacked.bank.folder
    bands = roc_bands({label: attacked.scores[label] for label in results.attacks}, attacked.design)
    write_bytes(folder / "report.md", markdown(results).encode())
    _draw_roc(results, bands, folder / "figures" / "roc.png")
    write_page(results, attacked, bands, disclosure)


def markdown(results: AuditResults) -> str:
    """The report as Markdown."""
    attacks, population = attack_table(results), results.population
    settings = {name: value for name, value in population.recipe.items() if value not in (None, [], {})}
    recipe = ", ".join(f"{name} {value}" for name, value in settings.items())
    lines = [
        f"# {title(results)}",
        "",
        *summary(results),
        "",
        *markdown_table(attacks.head, attacks.rows),
        "",
        attacks.caption,
        "The true positive rate (TPR) is that of the best threshold whose false positive rate (FPR) is",
        "within the budget, chosen on the target itself.",
        *unmeasurable(results),
        "",
        "![ROC](figures/roc.png)",
        "",
        *_sections(results),
        f"Seed {seeds_text(population)}; records sha256 {population.records_sha256[:16]}; recipe: {recipe}.",
        "",
    ]
    return "\n".join(lines)


def _sections(results: AuditResults) -> Iterator[str]:
    yield from _section("Checks of the audit itself", hygiene_table(results))
    yield from _section("Precision where members are few", precision_table(results))
    yield from _section("Thresholds from the other models", calibrated_table(results), CALIBRATED_TEXT)
    yield from _section("Lower bounds on epsilon", epsilon_table(results), epsilon_text(results))
    yield from _leakage_section(results)
    attack = results.strongest_attack
    for column, groups in results.attacks[attack].groups.items():
        yield from _section(f"By {column} ({attack})", group_table(groups, column))
    for reason in group_reasons(results):
        yield from [reason, ""]


def _section(heading: str, table: Table, text: str = "") -> list[str]:
    if not table.rows:
        return []
    return [f"## {heading}", "", *([text, ""] if text else []), *markdown_table(table.head, table.rows), ""]


def _leakage_section(results: AuditResults) -> list[str]:
    heading, reason = "Bits of membership per record", why_no_bits(results)
    if reason:
        return [f"## {heading}", "", f"Undefined: {reason}.", ""]
    return [
        *_section(heading, leakage_table(results), leakage_text(results)),
        *(line for sentence in no_interval_sentences(results) for line in (sentence, "")),
    ]


def _draw_roc(results: AuditResults, bands: Mapping[str, RocBand], path: Path) -> None:
    """Mean ROC over targets on log axes, with the spread over targets as a band."""
    smallest, n_targets = min(band.fpr[0] for band in bands.values()), results.population.targets
    with figure(path, 5.2, 4.8) as axes:
        for (label, band), colour in zip(bands.items(), COLOURS, strict=False):
            legend = f"{label} (AUC {results.attacks[label].auc.value:.3f})"
            if band.yes is not None:  # a binary attack has a single operating point
                axes.plot(*band.yes, "D", color=colour, label=legend)
                continue
            axes.plot(band.fpr, band.mean, color=colour, label=legend)
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
        axes.set_title("Membership inference by attack")
        axes.legend(loc="lower right", fontsize=9)
