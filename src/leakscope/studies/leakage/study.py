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

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from leakscope.bank.damage import check_seal, write_seal
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import atomic_folder, write_array
from leakscope.errors import CorruptBankError
from leakscope.leakage.experiment import Experiment
from leakscope.report.page import pages_to_write
from leakscope.studies.leakage.config import NETWORK, LeakageConfig, settings
from leakscope.studies.leakage.results import LeakageResults

KIND = "study leakage"
RESULTS_TYPE = LeakageResults


def run(
    config: LeakageConfig,
    out: Path,
    data_dir: Path | None = None,
    log: Callable[[str], None] = lambda _: None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> LeakageResults:
    """Trains what is missing under `out`, judges, writes the reports; returns the results.

    Args:
        config: what to run.
        out: run folder; an interrupted run in it resumes with the first incomplete figure.
        data_dir: the data folder.
        log: called with lines of progress.
        disclosure: what the report may disclose about single records.
    """
    from leakscope.studies.leakage.linear import linear_experiments
    from leakscope.studies.leakage.network import network_experiments
    from leakscope.studies.leakage.universe import load_universe

    universe = load_universe(config.dataset, config.records, config.seed, data_dir)
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        for figure, points in settings(config).items():
            if not _is_complete(_folder(out, figure)):
                train = network_experiments if figure == NETWORK else linear_experiments
                _write_experiments(_folder(out, figure), train(config, universe, figure, points, log))
        log("judging")
        results = write_results(out, recompute(out, config))
        for page in pages_to_write(out, disclosure):
            write_reports(out, results, page)
        return results


def recompute(out: Path, config: LeakageConfig) -> LeakageResults:
    """Every number of the study, from the experiments under `out`."""
    from leakscope.studies.leakage.judge import judged

    points = settings(config)
    for figure in points:
        check_seal(_folder(out, figure))
    experiments = {
        figure: [_read_experiment(_point_folder(_folder(out, figure), i)) for i in range(len(of_figure))]
        for figure, of_figure in points.items()
    }
    return judged(config, experiments)


def write_reports(out: Path, results: LeakageResults, disclosure: Disclosure) -> None:
    """Writes one of the reports."""
    from leakscope.studies.leakage.page import write_report

    write_report(results, out, disclosure.redacted is True)


def _is_complete(folder: Path) -> bool:
    """Whether a figure's experiments are stored and undamaged."""
    try:
        check_seal(folder)
    except CorruptBankError:
        return False
    return True


def _write_experiments(folder: Path, experiments: list[Experiment]) -> None:
    """Stores one experiment per point, sealed with checksums; the folder appears once it is complete."""
    shutil.rmtree(folder, ignore_errors=True)  # if it exists, it is damaged
    with atomic_folder(folder) as unfinished:
        for i, experiment in enumerate(experiments):
            for name, values in experiment._asdict().items():
                write_array(_point_folder(unfinished, i) / f"{name}.npy", values)
        write_seal(unfinished)


def _read_experiment(folder: Path) -> Experiment:
    return Experiment(*(stored_array(folder / f"{name}.npy") for name in Experiment._fields))


def _folder(out: Path, figure: int) -> Path:
    return out / "experiments" / (f"figure-{figure}" if figure else "shuffled")


def _point_folder(folder: Path, i: int) -> Path:
    return folder / f"point-{i:02d}"
