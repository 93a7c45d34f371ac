"""The study's tables and sentences: the truth beside the publication, and the features one by one."""

from __future__ import annotations

from leakscope.report.blocks import Table
from leakscope.single_model.report import auc_text, tpr_text
from leakscope.single_model.results import ScoreSpread
from leakscope.studies.ensemble.results import EnsembleResults

COMPARISON = ("attacker", "figure", "validation", "private", "published", "leaderboard")


def comparison(results: EnsembleResults, redacted: bool = False) -> Table:
    """Validation and private figures beside the published ones, three rows per attacker.

    Redacted, without the rows of scores: their ends are scores of single records.
    """
    rows = []
    for name, one in results.attackers.items():
        private, published = results.private_truth[name], results.published.get(name)
        rates = (published.validation, published.leaderboard) if published else ()
        missing = [""] * (2 - len(rates))
        rows.append([name, "AUC", auc_text(one.auc), auc_text(private.auc),
                     *(f"{rate.auc:.4f}" for rate in rates), *missing])  # fmt: skip
        rows.append(["", "TPR at 5% FPR", tpr_text(one.tpr_at_fpr), tpr_text(private.tpr_at_fpr),
                     *(f"{100 * rate.tpr_at_fpr:.2f}%" for rate in rates), *missing])  # fmt: skip
        theirs = score_text(published.scores) if published else ""
        if not redacted:
            rows.append(["", "scores", "", score_text(one.private), "", theirs])
    return Table(COMPARISON, rows)


def score_text(scores: ScoreSpread) -> str:
    """How scores are spread."""
    return f"mean {scores.mean:.4f}, sd {scores.sd:.4f}, {scores.low:.4f} to {scores.high:.4f}"


def feature_table(results: EnsembleResults) -> Table:
    """AUC of each feature alone."""
    rows = [[name, auc_text(auc)] for name, auc in results.features.items()]
    return Table(("feature", "AUC"), rows, "AUC of each feature alone, in the stated direction, all records")


def target_sentence(results: EnsembleResults) -> str:
    """What the target is and how far it overfits."""
    target, config = results.target, results.config
    return (
        f"Accuracy of the target ({config.net} on {config.dataset}): {100 * target.members:.1f}% on members, "
        f"{100 * target.nonmembers:.1f}% on non-members."
    )
