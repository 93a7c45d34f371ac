"""What the study adds to the reports of an attack: the target, and the truth beside the publication."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from leakscope.report.page import Section
from leakscope.report.study_page import Command, closest, options
from leakscope.single_model.report import PrivateTruth, ReportContext
from leakscope.studies.claims import claims_section
from leakscope.studies.ensemble.claims import PUBLICATION
from leakscope.studies.ensemble.config import PRESETS, EnsembleConfig
from leakscope.studies.ensemble.outputs import OUTPUTS, read_outputs
from leakscope.studies.ensemble.results import EnsembleResults
from leakscope.studies.ensemble.tables import comparison, feature_table, target_sentence

FEATURES_NOTE = (
    "An AUC above 0.5 has the direction that the publication states. The class probabilities are represented "
    "by the largest; the global likelihood ratio is fitted on the public records."
)
NOTE = (
    "Published and leaderboard are the publication's figures on its own validation and private records. Its "
    "data are undisclosed, so these figures are for comparison, not a target."
)


def study_context(results: EnsembleResults, folder: Path, redacted: bool = False) -> ReportContext:
    """The context of `leakscope study ensemble`, which knows the truth.

    Claims about the lowest and the highest score are about single records, so a redacted page has no claims.
    """
    config = results.config
    claims = [] if redacted else [claims_section(PUBLICATION.settle([results]))]
    truth = [target_sentence(results)]
    return ReportContext(
        subject=config.dataset,
        facts=[("Target", f"{config.net} on {config.dataset}, {config.epochs} epochs")],
        command=command(config),
        seed=config.seed,
        versions=read_outputs(folder / OUTPUTS).training.versions,
        truth=PrivateTruth(results.private_truth, truth, comparison(results, redacted), NOTE),
        sections=[
            Section("features", "Features", [feature_table(results)], FEATURES_NOTE),
            *claims,
        ],
    )


def command(config: EnsembleConfig) -> Command:
    """The command that repeats a run."""
    presets = {name: asdict(preset) for name, preset in PRESETS.items()}
    preset, changes = closest(presets, asdict(config))
    words = ("leakscope", "study", "ensemble", "--preset", preset, *options(changes), "--out", "runs/again")
    return Command(words)
