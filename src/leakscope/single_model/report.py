"""The sentences and tables of an attack on one given model, for its report and the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leakscope.report.blocks import Table
from leakscope.report.page import Section
from leakscope.report.phrases import enumeration
from leakscope.report.study_page import Command, options
from leakscope.single_model.attack import submission_file
from leakscope.single_model.results import (
    READINGS,
    AttackFindings,
    AttackResults,
    AttackSettings,
    AucFigure,
    Figures,
    TprFigure,
)

TITLE = "Membership of private records, inferred from public ones"
TRUTH_TITLE = "Truth and publication"
HEADINGS = ("attacker", "AUC", "TPR at 5% FPR", "TPR with ties", "distinct scores (calibrated)")
DEFINITIONS = (
    "AUC: the area under the ROC curve, with DeLong's 95% interval. It is how often a member scores above a "
    "non-member, ties counting half.",
    "TPR at 5% FPR: the true positive rate at a false positive rate of at most 5%, with Clopper-Pearson 95% "
    "intervals. The threshold is chosen on the same records.",
    "Isotonic calibration makes ties. The uncalibrated score breaks them and changes nothing else.",
)
OPTIMISTIC = "The attacker is chosen by its validation AUC, so that figure is slightly optimistic."
_DIGITS = 16  # of a hash


@dataclass(frozen=True)
class PrivateTruth:
    """What is added where the membership of the private records is known.

    Attributes:
        figures: attacker -> figures of its scores for the private records.
        target: sentences about the target.
        comparison: these figures beside those of the validation records and of the publication.
        note: a sentence about the comparison.
    """

    figures: Mapping[str, Figures]
    target: Sequence[str]
    comparison: Table
    note: str


@dataclass(frozen=True)
class ReportContext:
    """What the reports say about a run beside what it finds.

    Attributes:
        subject: what follows the title: a dataset or a file.
        facts: (name, value) of the target and the inputs.
        command: the command that repeats the run.
        seed: of all randomness.
        versions: package -> version the target was trained with; empty where it was not trained here.
        truth: the truth about the private records; None where it is unknown.
        sections: what else the page shows.
    """

    subject: str
    facts: Sequence[tuple[str, str]]
    command: Command
    seed: int
    versions: Mapping[str, str] = field(default_factory=dict)
    truth: PrivateTruth | None = None
    sections: Sequence[Section] = ()


def attack_context(results: AttackResults, redacted: bool) -> ReportContext:
    """The context of `leakscope attack`, which knows no truth.

    The hash of the public records covers who is a member, so a redacted report has none: it would confirm a
    guess.
    """
    config, model = results.config, results.model
    described = ", ".join(value for name, value in model.items() if name != "sha256")
    facts = [("Target", described or "saved predictions")]
    hashes = {
        "Target sha256": model.get("sha256", ""),
        "Public sha256": "" if redacted else config.public_sha256,
        "Private sha256": config.private_sha256,
    }
    facts += [(name, digest[:_DIGITS]) for name, digest in hashes.items() if digest]
    defaults = AttackSettings()
    chosen = {"attacker": config.attacker, "validation_share": config.validation_share, "seed": config.seed}
    readings = {name: getattr(config, name) for name in READINGS}
    chosen |= {name: value for name, value in readings.items() if value != getattr(defaults, name)}
    words = ("leakscope", "attack", *_input_options(model), *options(chosen), "--out", "runs/again")
    return ReportContext(model.get("file", "one given model"), facts, Command(words), config.seed)


def _input_options(model: Mapping[str, str]) -> list[str]:
    """Options that name a run's inputs; the files of records are known by their hashes only."""
    if not model:
        return ["--public-predictions", "PUBLIC.npz", "--private-predictions", "PRIVATE.npz"]
    named = {"file": "model", "function": "predict"} | {
        name: name for name in ("net", "net_options", "pixel_mean", "pixel_std")
    }
    given = {option: model[name] for name, option in named.items() if name in model}
    trust = ["--trust"] if "estimator" in model and not model.get("file", "").endswith(".skops") else []
    return [*options(given), *trust, "--public", "PUBLIC", "--private", "PRIVATE"]


def summary(findings: AttackFindings) -> list[str]:
    """What was done and what came of it, in sentences."""
    optimistic = [OPTIMISTIC] if len(findings.attackers) > 1 else []
    return [fitted_sentence(findings), validation_sentence(findings), *optimistic, score_sentence(findings)]


def fitted_sentence(findings: AttackFindings) -> str:
    """Which attackers were fitted on what."""
    names, split = list(findings.attackers), findings.split
    subject = f"attackers {enumeration(names)} were" if len(names) > 1 else f"attacker {names[0]} was"
    return (
        f"The {subject} fitted on {split.training:,} public records and evaluated on "
        f"{split.validation:,} others."
    )


def validation_sentence(findings: AttackFindings) -> str:
    """The main figure on the validation records."""
    figure = ranking(findings.chosen, findings.attackers[findings.chosen].auc)
    return f"On these {findings.split.validation:,} records, {figure}"


def score_sentence(findings: AttackFindings) -> str:
    """Where the scores are."""
    return (
        f"{submission_file(findings.chosen)} holds the scores of {findings.chosen} for the "
        f"{findings.private.records:,} private records."
    )


def ranking(attacker: str, auc: AucFigure) -> str:
    """What an AUC means, in a sentence."""
    return (
        f"{attacker} ranks a member above a non-member {100 * auc.value:.1f}% of the time "
        f"(95% interval {100 * auc.low:.1f}% to {100 * auc.high:.1f}%; guessing gives 50%)."
    )


def validation_rows(findings: AttackFindings) -> list[list[str]]:
    """One row of text per attacker."""
    return [
        [
            name,
            auc_text(one.auc),
            tpr_text(one.tpr_at_fpr),
            tpr_text(one.with_ties.tpr_at_fpr, interval=False),
            f"{one.distinct_scores:,} ({one.distinct_calibrated:,})",
        ]
        for name, one in findings.attackers.items()
    ]


def notes(findings: AttackFindings) -> list[str]:
    """What is special about the figures of this run."""
    attackers = findings.attackers
    reasons = sorted({one.tpr_at_fpr.reason for one in attackers.values() if one.tpr_at_fpr.reason})
    return [
        *(f"Not resolvable: {reason}." for reason in reasons),
        *(
            f"{name} reached its iteration limit before it converged; the limit is the published one."
            for name, one in attackers.items()
            if one.stopped_early
        ),
    ]


def auc_text(auc: AucFigure) -> str:
    """An AUC with its interval."""
    return f"{auc.value:.4f} ({auc.low:.4f} to {auc.high:.4f})"


def tpr_text(tpr: TprFigure, interval: bool = True) -> str:
    """A rate in percent, with its interval if that is wanted."""
    if tpr.value is None or tpr.low is None or tpr.high is None:
        return "not resolvable"
    value = f"{100 * tpr.value:.2f}%"
    return f"{value} ({100 * tpr.low:.2f} to {100 * tpr.high:.2f})" if interval else value
