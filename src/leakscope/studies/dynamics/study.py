"""When, during training, does each record become exposed? A published study, with noise floors.

Reproduces "Evaluating the Dynamics of Membership Privacy in Deep Learning" (arXiv 2507.23291): a population
of models on random halves of the records, asked at checkpoints; each record a point (FPR, TPR) that moves
over the vulnerability plane. Presets compare networks, optimizers and datasets, each setting one bank.

Where the document is loose: it does not define the unit of its displacement, nor whether it is net or along
the path (both are here, in percent of the plane's side), nor the probability's condition (here: of a record
outside the corner, to be in it at the next checkpoint). So ratios between settings stand beside its own,
not absolute values. It has no noise floor; with 20 models much of what moves is chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakscope.bank.bank import Bank
from leakscope.bank.run_folder import RESULTS, locked_run_folder
from leakscope.data.registry import load
from leakscope.design import make_design
from leakscope.disk.storage import write_json
from leakscope.errors import InputError
from leakscope.studies.dynamics.gradients import gradient_hardness, keep_gradient_norms
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.studies.dynamics.judge import JudgedRun

KIND = "study dynamics"


def run(
    config: DynamicsConfig,
    out: Path,
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """The whole study: trains what is missing under `out`, judges, reports; returns the results.

    Args:
        config: what to run.
        out: run folder.
        device: where models are trained: "auto", "cpu" or "cuda".
        data_dir: the data folder.
        progress: called with models' worth of training done.
    """
    from leakscope.engine.local import TrainingRequest, check_request, complete_bank
    from leakscope.studies.dynamics.judge import record_table, results_of
    from leakscope.studies.dynamics.report import write_report

    populated = populations(config, data_dir)
    requests = [
        TrainingRequest(records, design, setting.recipe(), setting.run_seed, setting.kept, device)
        for setting, (records, design) in zip(config.settings, populated, strict=True)
    ]
    for request in requests:  # all of them before the first is trained
        check_request(request)
    with locked_run_folder(out, KIND, asdict(config)):
        for setting, request in zip(config.settings, requests, strict=True):
            complete_bank(bank_folder(out, setting), request, progress=progress)
            keep_gradient_norms(out, setting, request.records, request.design, device)
        runs = judge(config, out)
        results = results_of(config, runs)
        record_table(out, runs, [records for records, _ in populated])
        write_json(out / RESULTS, results)
        write_report(results, runs, out)
        return results


def populations(config: DynamicsConfig, data_dir: Path | None = None) -> list[tuple[Records, Design]]:
    """Each setting's records and who is in which training set; a dataset is read once."""
    universes: dict[tuple[str, int | None], Records] = {}
    for setting in config.settings:
        chosen = (setting.dataset, setting.universe)
        if chosen not in universes:
            universes[chosen] = _universe(*chosen, data_dir)
    records = [universes[setting.dataset, setting.universe] for setting in config.settings]
    return [
        (own, make_design("balanced", setting.models, len(own), setting.run_seed))
        for setting, own in zip(config.settings, records, strict=True)
    ]


def _universe(dataset: str, n: int | None, data_dir: Path | None) -> Records:
    records = load(dataset, data_dir)
    if not records.is_classification:
        raise InputError(f"dataset={dataset!r}: dynamics need classes")
    if n is None:
        return records
    if n > len(records):
        raise InputError(
            f"universe={n:,} is more than the {len(records):,} records of {records.name}; ask for fewer"
        )
    return records.take(np.arange(n))


def judge(config: DynamicsConfig, out: Path) -> list[JudgedRun]:
    """Every setting's figures, from the banks under `out`."""
    from leakscope.studies.dynamics.judge import judged_run

    return [
        judged_run(config, setting, bank, gradient_hardness(out, setting, bank.design()))
        for setting in config.settings
        for bank in [Bank.open(bank_folder(out, setting))]
    ]


def recompute(out: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The results again, from the banks alone; what `leakscope verify` compares."""
    from leakscope.studies.dynamics.judge import results_of

    asked = config_from(config)
    return results_of(asked, judge(asked, out))


def config_from(stored: dict[str, Any]) -> DynamicsConfig:
    """The configuration a results.json was made with."""
    settings = tuple(Setting(**setting) for setting in stored["settings"])
    return DynamicsConfig(**{**stored, "settings": settings})


def bank_folder(out: Path, setting: Setting) -> Path:
    """Where the bank of one setting lives."""
    return out / "banks" / setting.name
