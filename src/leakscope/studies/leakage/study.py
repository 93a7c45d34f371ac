"""What drives membership leakage? Training-set size, ridge weight, number of features and noise.

Reproduces "Modelling and Quantifying Membership Information Leakage in Machine Learning" (Farokhi and Kaafar
2020). For each chosen record, models are trained with it and without it, on other records drawn at random.
Five figures plot the Kullback-Leibler leakage of the trained parameters and the advantage of a threshold
adversary against the training-set size (linear regression, then a network), the ridge weight, the number of
features, and added noise.

The study departs from the publication in three ways. The published estimate of leakage is biased upwards;
here the bias is measured, subtracted and drawn. As the ridge weight grows, only the leakage at finite
precision vanishes, so both curves are drawn. The network has far too many parameters for a Gaussian, so its
output on the record is measured instead, which is a lower bound by data processing. All points of a figure
share their records and draws: they differ only in what the figure varies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder
from leakscope.disclosure import Disclosure
from leakscope.report.page import pages_to_write
from leakscope.studies.leakage.config import NETWORK, LeakageConfig, settings
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.leakage.stored import is_complete, read_experiments, write_experiments

KIND = "study leakage"
RESULTS_TYPE = LeakageResults


def run(
    config: LeakageConfig,
    out: Path,
    data_dir: Path | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> LeakageResults:
    """Trains what is missing under `out`, judges, writes the reports; returns the results.

    Args:
        config: what to run.
        out: run folder; an interrupted run in it resumes with the first incomplete figure.
        data_dir: the data folder.
        log: called with lines of progress.
    """
    from leakscope.studies.leakage.linear import linear_experiments
    from leakscope.studies.leakage.network import network_experiments
    from leakscope.studies.leakage.universe import load_universe

    universe = load_universe(config.dataset, config.records, config.seed, data_dir)
    with locked_run_folder(out, KIND, asdict(config)):
        for figure, points in settings(config).items():
            if not is_complete(out, figure):
                train = network_experiments if figure == NETWORK else linear_experiments
                write_experiments(out, figure, train(config, universe, figure, points, log))
        log("judging")
        results = write_results(out, recompute(out, config))
        for disclosure in pages_to_write(out):
            write_reports(out, results, disclosure)
        return results


def recompute(out: Path, config: LeakageConfig) -> LeakageResults:
    """Every number of the study, from the experiments under `out`."""
    from leakscope.studies.leakage.judge import judged

    return judged(config, read_experiments(out, config))


def write_reports(out: Path, results: LeakageResults, disclosure: Disclosure) -> None:
    """Writes one of the reports."""
    from leakscope.studies.leakage.page import write_report

    write_report(results, out, disclosure.redacted is True)
