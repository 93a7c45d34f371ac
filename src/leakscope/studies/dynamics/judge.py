"""The dynamics study's figures, as pure functions of its banks.

Every figure comes with its noise floor (mean, lowest and highest over permuted designs) and its standard
error (jackknife over groups of models, which are left out both as targets and as references). Figures are
arrays until the results are written.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import scipy

import leakscope
from leakscope.bank.bank import Bank
from leakscope.dynamics.decisions import rule_text
from leakscope.dynamics.entropy_dependence import entropy_dependence
from leakscope.dynamics.grid import (
    cell_names,
    early_exposure,
    transition_counts,
    transition_matrix,
    vulnerable_cell,
)
from leakscope.dynamics.jackknife import Replicates, jackknife, over_populations
from leakscope.dynamics.metrics import Arrays, metrics
from leakscope.dynamics.noise_floor import Floor, noise_floor
from leakscope.dynamics.plane import Trajectories
from leakscope.evaluate.attacked import converged_models
from leakscope.hardness.correlations import correlate
from leakscope.hardness.in_out_mean import side_mean
from leakscope.hardness.over_training import correlate_over_training, measured_over_training
from leakscope.hardness.registry import measured
from leakscope.studies.dynamics.beside_bank import BesideBank
from leakscope.studies.dynamics.records import RunRecords, run_records
from leakscope.studies.dynamics.results import (
    AccuracyOverTraining,
    DynamicsResults,
    Figure,
    PopulationSpread,
    RunFigures,
    RunPopulation,
    RunResults,
    Transitions,
)
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.types import Design, Signals


class JudgedRun(NamedTuple):
    """The results of one setting, and the records they were computed from."""

    results: RunResults
    records: RunRecords


def judge_run(
    config: DynamicsConfig,
    setting: Setting,
    bank: Bank,
    beside: BesideBank,
) -> JudgedRun:
    """Everything about one bank, and about what was measured beside it."""
    signals, design = converged_models(bank)
    signals = _with_loss(signals)
    attack, side, cells = config.resolved_attack(), config.side, config.entropy_cells
    over_training = {**beside.uncertainty, **measured_over_training(signals, design)}
    hardness = {
        **{name: values[-1] for name, values in over_training.items() if np.isfinite(values[-1]).any()},
        **measured(signals, design),
        **beside.gradient_hardness,
    }
    records = run_records(config, setting.name, signals, design, hardness)
    floor = noise_floor(attack, signals, design, config.fpr, seed=setting.run_seed, side=side,
                        entropy_cells=cells, n_permutations=config.n_permutations)  # fmt: skip
    replicates = jackknife(attack, signals, design, config.fpr, side=side, entropy_cells=cells,
                           n_groups=min(config.n_groups, design.n_models))  # fmt: skip
    out_loss = side_mean(signals.last("loss"), ~design.in_mask)
    advantage = records.paths.advantage[-1]
    results = RunResults(
        setting=setting,
        population=_population(bank, design, records.paths),
        epochs=records.paths.epochs,
        accuracy=_accuracy(signals, design, beside),
        figures=_figures(metrics(records.paths, side, cells), floor, replicates),
        advantage=replicates.advantage,
        transitions=_transitions(records.paths, side),
        hardness=correlate(hardness, advantage, records.vulnerable[-1], out_loss),
        early_hardness=correlate_over_training(over_training, advantage, records.vulnerable[-1]),
        entropy_by_resolution=entropy_dependence(attack, signals, design, config.fpr, seed=setting.run_seed),
        complexity=beside.complexity,
        undefined=_undefined(records),
    )
    return JudgedRun(results, records)


def study_results(config: DynamicsConfig, runs: Sequence[JudgedRun]) -> DynamicsResults:
    """The results of the whole study."""
    results = [run.results for run in runs]
    return DynamicsResults(
        experiment="dynamics of membership exposure",
        config=config,
        conventions=conventions(config),
        runs={run.setting.name: run for run in results},
        populations=_populations(config, runs),
        runtime={
            "leakscope": leakscope.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    )


def conventions(config: DynamicsConfig) -> dict[str, str]:
    """Term -> how it is defined."""
    corner = cell_names(config.side)[vulnerable_cell(config.side)]
    return {
        "decision": f"{config.attack}, every model in turn judged by the others, {rule_text(config.fpr)}",
        "state": "true positive rate (TPR): share of the models trained on a record (IN) whose output counts "
        "as a member's; false positive rate (FPR): the same share of the models not trained on it (OUT)",
        "advantage": "TPR - FPR, mean over the records",
        "vulnerable": f"in the corner {corner}; a point on a border belongs to the higher cell",
        "center of mass": "mean state of the records; displacement from the first to the last checkpoint, in "
        "% of the plane's side",
        "entropy": f"in bits, over {config.entropy_cells} x {config.entropy_cells} cells",
        "speed": "mean distance a record moves per epoch, in % of the plane's side",
        "entry": "share of the records outside the corner that are inside at the next checkpoint; of all: "
        "the same number as a share of all records; per epoch: the constant probability with the same effect",
        "early exposure": "recall: of the records vulnerable at the end, the share in the corner at a "
        "checkpoint; precision: of the records in the corner then, the share vulnerable at the end; ever: "
        "the same for the records that were in the corner at a checkpoint or before",
        "noise floor": "the figure with each record's IN models drawn again, identically at all checkpoints; "
        f"mean, lowest and highest of {config.n_permutations} draws",
        "standard error": "jackknife over groups of models, left out as targets and as references",
        "hardness": "high means hard; correlated with the advantage at the end; the partial correlation "
        "is given the mean loss of OUT models; binned: of the means in 20 bins of equally many records",
        "early hardness": "a measure at a checkpoint, correlated with the advantage at the end",
        "complexity": "share of the first 2,000 records whose nearest other record has another label",
    }


def _population(bank: Bank, design: Design, paths: Trajectories) -> RunPopulation:
    return RunPopulation(
        models=design.n_models,
        diverged_models=len(bank.diverged),
        records=design.n_records,
        judged_records=int(paths.is_defined.sum()),
        members_per_model=float(design.in_mask.sum(axis=1).mean()),
        device=bank.manifest.device or "unknown",
    )


def _with_loss(signals: Signals) -> Signals:
    """The signals with the loss, which log-odds determine: `log(1 + exp(-log_odds))`."""
    if "loss" in signals.arrays or "log_odds" not in signals.arrays:
        return signals
    log_odds = np.asarray(signals.arrays["log_odds"], dtype=np.float32)
    return Signals({**signals.arrays, "loss": np.logaddexp(0, -log_odds)}, signals.epochs, signals.labels)


def _accuracy(signals: Signals, design: Design, beside: BesideBank) -> AccuracyOverTraining:
    if beside.accuracy is not None:
        on_members, on_nonmembers = (tuple(float(x) for x in series) for series in beside.accuracy.T)
        return AccuracyOverTraining(on_members, on_nonmembers)
    correct = signals.arrays["correct"]
    members, nonmembers = (
        tuple(float(correct[:, t][mask].mean()) for t in range(len(signals.epochs)))
        for mask in (design.in_mask, ~design.in_mask)
    )
    return AccuracyOverTraining(members, nonmembers)


def _figures(values: Arrays, floor: Floor[Arrays], replicates: Replicates) -> RunFigures:
    """Value, standard error and noise floor of every figure."""
    parts = (values, replicates.standard_error, floor.mean, floor.low, floor.high)
    rows: Iterable[Any] = zip(*(vars(part).values() for part in parts), strict=True)
    return RunFigures(*(Figure(value, error, Floor(*of_floor)) for value, error, *of_floor in rows))


def _transitions(paths: Trajectories, side: int) -> Transitions:
    counts: Any = transition_counts(paths.defined().states, side)  # (steps, from, to)
    overall: Any = transition_matrix(counts.sum(axis=0))
    return Transitions(tuple(cell_names(side)), overall, counts)


def _undefined(records: RunRecords) -> tuple[str, ...]:
    """Why some figures are missing; empty where none is."""
    reasons = []
    if len(records.paths.epochs) == 1:
        reasons.append("There is a single checkpoint, so only the final plane is known, not the way there.")
    vulnerable = records.vulnerable
    reason = early_exposure(vulnerable, vulnerable[-1], records.paths.epochs).reason
    if reason:
        reasons.append(f"Early exposure is partly undefined: {reason}.")
    return tuple(reasons)


def _populations(config: DynamicsConfig, runs: Sequence[JudgedRun]) -> dict[str, PopulationSpread]:
    """Setting -> variation between its independent populations, where there are several."""
    by_setting: dict[str, list[Trajectories]] = {}
    for run in runs:
        name = replace(run.results.setting, population=0).name
        by_setting.setdefault(name, []).append(run.records.paths)
    spreads = {}
    for name, paths in by_setting.items():
        if len(paths) > 1:
            errors, advantage = over_populations(paths, config.side, config.entropy_cells)
            spreads[name] = PopulationSpread(cast(Any, errors), advantage)
    return spreads
