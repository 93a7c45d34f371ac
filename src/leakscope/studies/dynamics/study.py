"""When, during training, does each record become exposed? A published study, with noise floors.

Reproduces "Evaluating the Dynamics of Membership Privacy in Deep Learning" (arXiv 2507.23291): a population
of models on random halves of the records is queried at checkpoints, and each record is a point (FPR, TPR)
that moves over the vulnerability plane. Presets compare networks, optimizers and datasets; each setting is
one bank.

The publication leaves three things open. It does not define the unit of its displacement, nor whether it is
net or along the path (both are reported, in percent of the plane's side), nor the condition of its transition
probability (here: a record outside the corner is inside at the next checkpoint). Ratios between settings are
therefore compared, not absolute values. It has no noise floor, yet with 20 models much movement is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.bank.bank import Bank
from leakscope.bank.results import write_results
from leakscope.bank.run_folder import locked_run_folder, stored_array
from leakscope.data.registry import load
from leakscope.design import make_design
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import write_array
from leakscope.dynamics.complexity import nearest_neighbor_error
from leakscope.errors import InputError
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.hardness.uncertainty import UNCERTAINTIES
from leakscope.report.page import pages_to_write
from leakscope.studies.dynamics.beside_bank import BesideBank
from leakscope.studies.dynamics.given_bank import GivenBank
from leakscope.studies.dynamics.records import bank_folder, record_names, stored_records, write_record_table
from leakscope.studies.dynamics.results import DynamicsResults
from leakscope.studies.dynamics.retrained import dropout_uncertainty, gradient_hardness, store_retrained
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.studies.dynamics.subject import Subject
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.studies.dynamics.judge import JudgedRun

KIND = "study dynamics"
RESULTS_TYPE = DynamicsResults


def run(
    config: DynamicsConfig,
    out: Path,
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Callable[[float], None] = lambda _: None,
    subject: Subject | None = None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
) -> DynamicsResults:
    """Runs the study: trains the models that are missing under `out`, computes the results, writes reports.

    Args:
        config: what to run.
        out: run folder; an interrupted study in it is resumed.
        device: where models are trained: "auto", "cpu" or "cuda".
        data_dir: data folder.
        progress: called with the number of models trained since the last call; fractions count.
        subject: records and recipe of a config file; None: those that the settings name.
        disclosure: what the report may disclose about single records.
    """
    from leakscope.engine.local import TrainingRequest, check_request, complete_bank

    signals = [config.signals(setting) for setting in config.settings]
    populated = populations(config, data_dir, subject)
    requests = [
        TrainingRequest(
            records, design, subject.recipe if subject else setting.recipe(), setting.run_seed, names, device
        )
        for setting, names, (records, design) in zip(config.settings, signals, populated, strict=True)
    ]
    for request in requests:  # every setting, before the first model is trained
        check_request(request)
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        for setting, request in zip(config.settings, requests, strict=True):
            complete_bank(bank_folder(out, setting), request, progress=progress)
            store_retrained(out, setting, request.records, request.design, device)
            _store(_complexity_path(out, setting), np.array(nearest_neighbor_error(request.records)))
        names = [record_names(records) for records, _ in populated]
        return _judge_and_report(config, out, names, disclosure)


def run_on_bank(
    config: DynamicsConfig,
    given: GivenBank,
    out: Path,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    data_dir: Path | None = None,
) -> DynamicsResults:
    """Runs the study on models that were trained elsewhere: computes the results, writes reports.

    Args:
        config: what to compute, with the setting that `GivenBank.setting` returns.
        given: the outputs of the models.
        out: run folder.
        disclosure: what the report may disclose about single records.
        data_dir: data folder, which may hold the dataset's records; they give its complexity.
    """
    (setting,) = config.settings
    with locked_run_folder(out, KIND, asdict(config)):
        stay_redacted(out, disclosure)
        given.write(bank_folder(out, setting), setting.dataset)
        for name, values in given.uncertainty.items():
            _store(_uncertainty_path(out, setting, name), values)
        _store(_accuracy_path(out, setting), given.accuracy)
        complexity = given.complexity(setting.dataset, data_dir)
        if complexity is not None:
            _store(_complexity_path(out, setting), np.array(complexity))
        return _judge_and_report(config, out, [given.metadata(setting.dataset)], disclosure)


def _judge_and_report(
    config: DynamicsConfig, out: Path, names: Sequence[RecordMetadata], disclosure: Disclosure
) -> DynamicsResults:
    """Everything that follows the training."""
    from leakscope.studies.dynamics.judge import study_results
    from leakscope.studies.dynamics.page import write_report

    judged = judge(config, out)
    run_records = [run.records for run in judged]
    write_record_table(out, run_records, names)
    results = write_results(out, study_results(config, judged))
    for page in pages_to_write(out, disclosure):
        write_report(results, run_records, out, page.redacted is True)
    return results


def populations(
    config: DynamicsConfig, data_dir: Path | None = None, subject: Subject | None = None
) -> list[tuple[Records, Design]]:
    """The records and the design of each setting; a dataset is loaded once."""
    universes: dict[tuple[str, int | None], Records] = {}
    populated = []
    for setting in config.settings:
        key = (setting.dataset, setting.universe)
        if key not in universes:
            records = subject.records if subject else load(setting.dataset, data_dir)
            universes[key] = _universe(records, setting.universe)
        design = make_design(setting.design, setting.models, len(universes[key]), setting.run_seed)
        populated.append((universes[key], design))
    return populated


def judge(config: DynamicsConfig, out: Path) -> list[JudgedRun]:
    """The results of every setting, from the banks under `out`."""
    from leakscope.studies.dynamics.judge import judge_run

    banks = [(setting, Bank.open(bank_folder(out, setting))) for setting in config.settings]
    return [judge_run(config, setting, bank, _beside(out, setting, bank.design())) for setting, bank in banks]


def recompute(out: Path, config: DynamicsConfig) -> DynamicsResults:
    """The results, computed again from the banks alone."""
    from leakscope.studies.dynamics.judge import study_results

    return study_results(config, judge(config, out))


def write_reports(out: Path, results: DynamicsResults, disclosure: Disclosure) -> None:
    """Writes one of the reports of a finished study again, from its results and banks."""
    from leakscope.studies.dynamics.page import write_report

    write_report(results, stored_records(out, results), out, disclosure.redacted is True)


def _beside(out: Path, setting: Setting, design: Design) -> BesideBank:
    """What was measured on networks and records, which the bank's outputs do not give."""
    paths = {name: _uncertainty_path(out, setting, name) for name in UNCERTAINTIES}
    given = {name: stored_array(path) for name, path in paths.items() if path.exists()}
    complexity, accuracy = _complexity_path(out, setting), _accuracy_path(out, setting)
    return BesideBank(
        gradient_hardness(out, setting, design),
        {**given, **dropout_uncertainty(out, setting, design)},
        float(stored_array(complexity)) if complexity.exists() else None,
        stored_array(accuracy) if accuracy.exists() else None,
    )


def _store(path: Path, array: AnyArray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_array(path, array)


def _accuracy_path(out: Path, setting: Setting) -> Path:
    return out / "accuracy" / f"{setting.name}.npy"


def _complexity_path(out: Path, setting: Setting) -> Path:
    return out / "complexity" / f"{setting.name}.npy"


def _uncertainty_path(out: Path, setting: Setting, name: str) -> Path:
    return out / "uncertainty" / setting.name / f"{name}.npy"


def _universe(records: Records, n: int | None) -> Records:
    if not records.is_classification:
        raise InputError(
            f"dataset={records.name!r}: the dynamics study needs classes, not a regression target"
        )
    if n is None:
        return records
    if n > len(records):
        raise InputError(
            f"universe={n:,} is more than the {len(records):,} records of {records.name}; choose fewer"
        )
    return records.take(np.arange(n))
