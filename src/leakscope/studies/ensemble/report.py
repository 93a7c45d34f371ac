"""What the study adds to the reports of an attack: the target, and the truth beside the publication."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from leakscope.bank.bank import Bank
from leakscope.report.blocks import Table
from leakscope.report.study_page import Command, closest, options
from leakscope.single_model.report import PrivateTruth, ReportContext, auc_text, tpr_text
from leakscope.studies.ensemble.config import PRESETS, EnsembleConfig
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.study import TARGET

COMPARISON = ("attacker", "figure", "validation", "private", "published", "leaderboard")
NOTE = (
    "Published and leaderboard are the publication's figures on its own validation and private records. Its "
    "data are undisclosed, so these figures are for comparison, not a target."
)


def study_context(results: EnsembleResults, folder: Path) -> ReportContext:
    """The context of `leakscope study ensemble`, which knows the truth."""
    config = results.config
    return ReportContext(
        subject=config.dataset,
        facts=[("Target", f"{config.net} on {config.dataset}, {config.epochs} epochs")],
        command=command(config),
        seed=config.seed,
        versions=Bank.open(folder / TARGET).manifest.versions,
        truth=PrivateTruth(results.private_truth, [target_sentence(results)], comparison(results), NOTE),
    )


def command(config: EnsembleConfig) -> Command:
    """The command that repeats a run."""
    presets = {name: asdict(preset) for name, preset in PRESETS.items()}
    preset, changes = closest(presets, asdict(config))
    words = ("leakscope", "study", "ensemble", "--preset", preset, *options(changes), "--out", "runs/again")
    return Command(words)


def comparison(results: EnsembleResults) -> Table:
    """Validation and private figures beside the published ones, two rows per attacker."""
    rows = []
    for name, one in results.attackers.items():
        private, published = results.private_truth[name], results.published.get(name)
        rates = (published.validation, published.leaderboard) if published else ()
        rows.append([name, "AUC", auc_text(one.auc), auc_text(private.auc),
                     *(f"{rate.auc:.4f}" for rate in rates), *[""] * (2 - len(rates))])  # fmt: skip
        rows.append(["", "TPR at 5% FPR", tpr_text(one.tpr_at_fpr), tpr_text(private.tpr_at_fpr),
                     *(f"{100 * rate.tpr_at_fpr:.2f}%" for rate in rates),
                     *[""] * (2 - len(rates))])  # fmt: skip
    return Table(COMPARISON, rows)


def target_sentence(results: EnsembleResults) -> str:
    """What the target is and how far it overfits."""
    target, config = results.target, results.config
    return (
        f"Accuracy of the target ({config.net} on {config.dataset}): {100 * target.members:.1f}% on members, "
        f"{100 * target.nonmembers:.1f}% on non-members."
    )
