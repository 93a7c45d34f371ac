"""What drives membership leakage? Training-set size, ridge weight, number of features and noise.

Reproduces "Modelling and Quantifying Membership Information Leakage in Machine Learning" (Farokhi and Kaafar
2020). For each chosen record, models are trained with it and without it, on other records drawn at random.
Five figures plot the Kullback-Leibler leakage of the trained parameters and the advantage of a threshold
adversary against the training-set size (linear regression, then a network), the ridge weight, the number of
features, and added noise.

The study departs from the publication in three ways. The published estimate of leakage is biased upwards;
here the bias is measured, subtracted and drawn. As the ridge weight grows, only the leakage at finite
precision vanishes, so both curves are drawn. The network has far too many parameters for a Gaussian, so its
output on the record is measured instead, by nearest neighbors and by a Gaussian fit. All points of a figure
share their records and draws: they differ only in what the figure varies.

Three extensions follow the figures: the limits of Theorem 3 with parameters that are really rounded, the
Gaussian mechanism calibrated to a proved sensitivity, and leakage as a regularizer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from leakscope.bank.damage import check_seal, write_seal
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import atomic_folder, write_array
from leakscope.errors import CorruptBankError
from leakscope.leakage.experiment import Experiment
from leakscope.report.page import pages_to_write
from leakscope.studies.leakage.config import NETWORK, REGULARIZER, LeakageConfig, part_name, settings
from leakscope.studies.leakage.results import LeakageResults

KIND = "study leakage"
_ARRAYS = ("inputs", "inside_mean", "inside_covariance", "outside_mean", "outside_covariance", "penalty")
_ONE_PER_RECORD = tuple(name for name in Experiment._fields if name not in _ARRAYS)
_NUMBERS = "numbers.npy"
"""Everything that is one number per record, in one file: (fields, records)."""
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
    from leakscope.studies.leakage.regularizer import regularizer_experiments
    from leakscope.studies.leakage.universe import load_universe

    universe = load_universe(config.dataset, config.records, config.seed, data_dir)
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        for figure, points in settings(config).items():
            if not _is_complete(_folder(out, figure)):
                train = network_experiments if figure == NETWORK else linear_experiments
                _write_experiments(_folder(out, figure), train(config, universe, figure, points, log))
        if "regularizer" in config.extensions and not _is_complete(_folder(out, REGULARIZER)):
            _write_experiments(_folder(out, REGULARIZER), regularizer_experiments(config, universe, log))
        log("judging")
        results = write_results(out, recompute(out, config))
        for page in pages_to_write(out, disclosure):
            write_reports(out, results, page)
        return results


def recompute(out: Path, config: LeakageConfig) -> LeakageResults:
    """Every number of the study, from the experiments under `out`."""
    from leakscope.studies.leakage.judge import judged

    figures = [*settings(config), *([REGULARIZER] if "regularizer" in config.extensions else [])]
    return judged(config, {figure: _read_experiments(_folder(out, figure)) for figure in figures})


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
            fields, folder_of_point = experiment._asdict(), _point_folder(unfinished, i)
            for name in _ARRAYS:
                write_array(folder_of_point / f"{name}.npy", fields[name])
            write_array(folder_of_point / _NUMBERS, np.stack([fields[name] for name in _ONE_PER_RECORD]))
        write_seal(unfinished)


def _read_experiments(folder: Path) -> list[Experiment]:
    check_seal(folder)
    return [_read_experiment(point) for point in sorted(folder.glob("point-*"))]


def _read_experiment(folder: Path) -> Experiment:
    arrays = {name: stored_array(folder / f"{name}.npy") for name in _ARRAYS}
    numbers = zip(_ONE_PER_RECORD, stored_array(folder / _NUMBERS), strict=True)
    return Experiment(**arrays, **dict(numbers))


def _folder(out: Path, figure: int) -> Path:
    return out / "experiments" / part_name(figure).replace(" ", "-")


def _point_folder(folder: Path, i: int) -> Path:
    return folder / f"point-{i:02d}"
