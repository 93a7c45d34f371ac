"""From the banks of advice to its results: each population judged, and paired with the one without a defence.

All populations have the same records, design and seed. Groups of models are left out of two of them at a
time, as targets and as references, so that what they have in common cancels in the difference (a jackknife).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakscope.advice.rank import ranked, recommended
from leakscope.advice.results import AdviceConfig, AdviceResults, Effect, PopulationSummary, Tried
from leakscope.array_types import BoolArray, FloatArray
from leakscope.attacks.spec import resolve_all
from leakscope.bank.bank import Bank
from leakscope.compare.results import DifferenceFigure
from leakscope.evaluate.attacked import without_models
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import judge
from leakscope.evaluate.results import AuditResults, Figure
from leakscope.evaluate.suggested_gate import suggested_gate
from leakscope.evaluate.uncertainty import Replicates, Sample
from leakscope.evaluate.utility import r_squared, utility_values
from leakscope.stats.differences import Difference, Replicated, jackknife_difference
from leakscope.stats.estimate import Estimate
from leakscope.stats.rates import rates_by_model
from leakscope.stats.roc import auc_of_split, split_scores
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.types import Signals

BASELINE = "baseline"
LEVEL = 0.95
_NO_FPR = 0.1  # of a TPR that nothing reads: an audit needs one
_TIME_WAS_UP = "the time was up; the same command resumes with it"


@dataclass(frozen=True, eq=False)
class Measured:
    """A population and what is compared.

    Attributes:
        results: of its audit.
        attack: label of the strongest attack against it.
        utility: accuracy or R² on non-members.
        figures: AUC and TPR of that attack, utility; NaN where one is not measured.
    """

    results: AuditResults
    attack: str
    utility: Estimate
    figures: Replicated


def bank_folder(folder: Path, config: AdviceConfig, defence: str | None) -> Path:
    """The folder of the bank with a defence, or of the one without."""
    if defence is None:
        return folder / "banks" / BASELINE
    return folder / "banks" / f"{config.defences.index(defence):02d}-{defence.partition('(')[0]}"


def results_of(folder: Path, config: AdviceConfig) -> AdviceResults:
    """Every number, from the complete banks under `folder`."""
    paths = {defence: bank_folder(folder, config, defence) for defence in config.defences}
    complete = {name: Bank.open(path) for name, path in paths.items() if (path / "manifest.json").exists()}
    return judged(config, Bank.open(bank_folder(folder, config, None)), complete)


def judged(config: AdviceConfig, baseline: Bank, complete: Mapping[str, Bank]) -> AdviceResults:
    """The results of a bank without a defence, and of those with one."""
    diverged = {model for bank in (baseline, *complete.values()) for model in bank.diverged}
    measured = {name: _measured(bank, config, diverged) for name, bank in complete.items()}
    plain = _measured(baseline, config, diverged)
    level = 1 - (1 - LEVEL) / max(3 * len(measured), 1)
    tried = ranked([_tried(name, plain, own, config, level) for name, own in measured.items()])
    best = recommended(tried)
    gate = suggested_gate((measured[best] if best else plain).results)
    late = {name: _TIME_WAS_UP for name in config.defences if name not in complete}
    return AdviceResults(
        experiment="advise",
        config=config,
        baseline=_summary(plain),
        tried=tuple(tried),
        not_tried={**late, **config.not_applicable},
        recommended=best,
        level=level,
        gate=gate.toml,
        gate_reasons=gate.reasons,
    )


def _measured(bank: Bank, config: AdviceConfig, diverged: set[int]) -> Measured:
    """The population without models that diverged in any, so that all have the same ones."""
    asked = EvaluationConfig(config.records, config.attacks, (config.fpr or _NO_FPR,), unit=config.unit)
    audit = judge(bank, asked)
    results = audit.results
    signals, design = without_models(bank.signals(), bank.design(), diverged)
    sample = Sample.of(signals, design, np.arange(design.n_models))
    attacks = resolve_all(config.attacks)
    strongest = max((one.label for one in attacks), key=lambda label: results.attacks[label].auc.value or 0.0)
    fitted = audit.attacked.fitted[strongest]  # what it has learned takes longer than the replicates
    scored = sample.replicates(fitted)
    if results.attacks[strongest].inverted:
        scored = scored.negated()
    replicates = [_curves(scored, config.fpr), _utilities(sample)]
    utility = _utility(results, signals)
    figures = Replicated(_figures(results, strongest, utility), np.concatenate(replicates, axis=1))
    return Measured(results, strongest, utility, figures)


def _utility(results: AuditResults, signals: Signals) -> Estimate:
    """On non-members, as the audit has it."""
    if results.accuracy is not None:
        return _these(results.accuracy.nonmembers)
    assert results.error is not None, "advice stores which predictions are correct, or their errors"
    return r_squared(results.error.nonmembers, signals)


def _figures(results: AuditResults, attack: str, utility: Estimate) -> FloatArray:
    """AUC, TPR and utility as the audit has them; attacks are repeated for the spread alone."""
    figures = results.attacks[attack]
    values = (figures.auc.value, figures.tpr_at_fpr[0].value, utility.value)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _curves(scored: Replicates, fpr: float | None) -> FloatArray:
    """AUC and TPR, means over targets, without each group of models; float64 (groups, 2)."""
    return np.array([_curve(one.values, one.in_mask, fpr) for one in scored.without])


def _utilities(sample: Sample) -> FloatArray:
    """Utility on non-members without each group of models; float64 (groups, 1)."""
    replicates = sample.replicates_of(utility_values(sample.signals))
    units = sample.design.units
    masks = [one.in_mask if units is None else one.in_mask[:, units] for one in replicates.without]
    means = [
        rates_by_model(one.values, in_mask).nonmembers.mean()
        for one, in_mask in zip(replicates.without, masks, strict=True)
    ]
    return np.array(means)[:, None]


def _curve(scores: FloatArray, in_mask: BoolArray, fpr: float | None) -> list[float]:
    rows = [split_scores(*row) for row in zip(scores, in_mask, strict=True)]
    tpr = float(np.mean([tpr_at_expected_fpr(row, fpr) for row in rows])) if fpr else float("nan")
    return [float(np.mean([auc_of_split(row) for row in rows])), tpr]


def _tried(name: str, plain: Measured, own: Measured, config: AdviceConfig, level: float) -> Tried:
    differences = jackknife_difference(plain.figures, own.figures, is_paired=True, level=level)
    rows = zip(plain.figures.figures.tolist(), own.figures.figures.tolist(), differences, strict=True)
    auc, tpr, utility = (_difference(*row) for row in rows)
    assert auc is not None and utility is not None, "an AUC and a utility are always measured"
    lost = -(utility.difference or 0.0)
    return Tried(
        defence=name,
        settings=config.settings[name],
        population=_summary(own),
        auc=auc,
        tpr=tpr,
        utility=utility,
        effect=_effect(auc),
        is_affordable=lost <= config.accepted_loss,
        dominated_by=None,
    )


def _difference(baseline: float, other: float, difference: Difference) -> DifferenceFigure | None:
    interval = difference.interval
    if np.isnan(difference.value):
        return None
    low, high = (None, None) if np.isnan(interval.low) else (interval.low, interval.high)
    return DifferenceFigure(baseline, other, difference.value, low, high, interval.method)


def _effect(auc: DifferenceFigure) -> Effect:
    if auc.low is None or auc.high is None:
        return "no difference detected"
    if auc.high < 0:
        return "leaks less"
    return "leaks more" if auc.low > 0 else "no difference detected"


def _summary(measured: Measured) -> PopulationSummary:
    results = measured.results
    return PopulationSummary(
        rating=results.rating.level,
        attack=measured.attack,
        auc=_these(results.attacks[measured.attack].auc),
        most_exposed=_these(results.headline.most_exposed.auc),
        utility=measured.utility,
        converged=results.population.models,
    )


def _these(figure: Figure) -> Estimate:
    ends = (figure.value, figure.these_low, figure.these_high)
    return Estimate(*(None if end is None or np.isnan(end) else end for end in ends))
