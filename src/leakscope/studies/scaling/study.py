"""Does model size or overfitting drive membership leakage? MLPs of many widths on Gaussian classes.

Reproduces "Membership Inference in Small MLPs: A Toy Study of Model Size and Overfitting" (2603.00412):
Gaussian classes, two-layer MLPs of several widths, a logistic regression on the probabilities of shadow
models. Each width is one bank. It holds, for every repeat, a target, its shadow models, and reference models
on random halves of the target's records, which LiRA needs. A model is queried on its own dataset only.

The published study differs from its description or from a sound attack in three ways. Its classes have
standard deviation 1.5, where the text says variance 1.5. It redraws the class centers for each shadow model,
so shadow models do not come from the target's distribution (`shadow_data="same"` uses the target's centers).
And all its repeats share one target dataset, so its spread over repeats is that of training alone
(`target_data="redrawn"` draws a new dataset for each repeat).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from leakscope.bank.bank import Bank
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.report.page import pages_to_write
from leakscope.studies.scaling.config import ScalingConfig
from leakscope.studies.scaling.population import load_source, population
from leakscope.studies.scaling.published_seeds import stored_logits, train_missing
from leakscope.studies.scaling.results import ScalingResults

KIND = "study scaling"
RESULTS_TYPE = ScalingResults
_SIGNALS = ("correct", "log_odds", "logits", "loss")


def run(
    config: ScalingConfig,
    out: Path,
    progress: Callable[[float], None] = lambda _: None,
    data_dir: Path | None = None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> ScalingResults:
    """Trains what is missing under `out`, judges, writes the reports; returns the results.

    Args:
        config: what to run.
        out: run folder; an interrupted run in it resumes.
        progress: called with the number of models trained since the last call.
        data_dir: the data folder, for other datasets than the Gaussian classes.
        disclosure: what the report may disclose about single records.
    """
    from leakscope.engine.local import TrainingRequest, complete_bank

    source = load_source(config, data_dir)
    config = config if source is None else config.for_dataset(source)
    config.classifier()
    records, design = population(config, source)  # first: it may refuse the configuration
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        for width in config.hidden_widths:
            request = TrainingRequest(records, design, config.recipe(width), config.seed, _SIGNALS, "cpu")
            complete_bank(bank_folder(out, width), request, progress=progress)
        if config.published_seeds:
            train_missing(config, records, design, out, progress)
        results = write_results(out, recompute(out, config))
        for page in pages_to_write(out, disclosure):
            write_reports(out, results, page)
        return results


def recompute(out: Path, config: ScalingConfig) -> ScalingResults:
    """Every number of the study, from the banks under `out`."""
    from leakscope.studies.scaling.judge import judged

    banks = [Bank.open(bank_folder(out, width)) for width in config.hidden_widths]
    return judged(config, banks, stored_logits(config, out))


def write_reports(out: Path, results: ScalingResults, disclosure: Disclosure) -> None:
    """Writes one of the reports."""
    from leakscope.studies.scaling.page import write_report

    write_report(results, out, disclosure.redacted is True)


def bank_folder(out: Path, width: int) -> Path:
    """The folder of one width's bank."""
    return out / "banks" / f"width-{width:05d}"
