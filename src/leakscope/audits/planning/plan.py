"""What an audit takes and what it can tell: time from the trial, the rest from shapes and the design."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import scipy
import torch

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import FloatArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.audits.planning.claim import PlannedClaim, plan_claim
from leakscope.audits.planning.judging import judging_seconds
from leakscope.audits.planning.trial import (
    Adapters,
    Fits,
    Networks,
    Seconds,
    Training,
    block_size_of,
)
from leakscope.audits.run import as_audits_run, prepare
from leakscope.audits.settings import AuditSettings
from leakscope.audits.source import PreparedAudit, Sizes, Source
from leakscope.disk.mmap_rows import is_mapped
from leakscope.disk.scratch import IN_MEMORY, RECORDS_AT_ONCE
from leakscope.engine.request import TrainingRequest, device_of
from leakscope.errors import TrainingError
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.exposed_share import models_to_pass
from leakscope.evaluate.exposure import Detectable, detectable_records
from leakscope.evaluate.gate import Gate, why_too_few
from leakscope.evaluate.hygiene.models import too_few_models
from leakscope.evaluate.suggested_gate import SuggestedGate, gate_to_begin_with
from leakscope.evaluate.uncertainty import SAMPLED_SCORES
from leakscope.recipe import Recipe
from leakscope.signals.registry import QUERY_LOG_ODDS, TOKEN_LOG_PROBS
from leakscope.stats.intervals import Interval, clopper_pearson, delong_of_split
from leakscope.stats.per_record import record_risk
from leakscope.stats.roc import SplitScores, why_unresolvable

SUPPOSED_AUC, _LEAST_TPR = 0.6, 0.05
"""What widths of intervals are computed under."""
_SHARED_BY_TARGETS = 1.6
"""Spread of a mean over targets, which share records and references, as a multiple of that over independent
ones: 1.5 to 1.7 for the headline of 8, 16, 32 and 64 models that reveal nothing (benchmarks/coverage.py)."""

_NPY_HEADER = 128  # bytes before the numbers of a .npy file
_BLOCK_ARRAYS = 12  # float64 (models, block) at the peak of LiRA, in every thread
_REPLICATE_ARRAYS = 40  # float64 (models, sampled records) while attacks are repeated without some models
_RECORD_VECTORS = 24  # float64 (records,) at the peak of judging, see docs/scale.md


@dataclass(frozen=True)
class Time:
    """Training and judging, how training was measured, and how long measuring took."""

    training: Seconds
    judging: Seconds
    total: Seconds
    how: str
    trial_seconds: float


@dataclass(frozen=True)
class Memory:
    """Bytes; `peak` is records + the largest of training (the next three), judging, standardising."""

    records: int
    parameters: int
    workspace: int
    signals: int
    judging: int
    peak: int


@dataclass(frozen=True)
class Disk:
    """Bytes of each signal's file, of the finished bank, and at its peak, when the blocks are there too."""

    signals: dict[str, int]
    finished: int
    peak: int


@dataclass(frozen=True)
class RateResolution:
    """The TPR at one FPR budget; half widths of 95% intervals where it is `supposed`."""

    fpr: float
    supposed: float
    needed_nonmembers: int
    one_target: float
    all_targets: float
    reason: str


@dataclass(frozen=True)
class Resolution:
    """What the design can tell apart; widths are half widths of 95% intervals.

    Attributes:
        lowest_fpr: one over a target's non-members.
        lowest_fpr_pooled: one over the non-members of all targets.
        auc_one_target: where the AUC is `SUPPOSED_AUC`, binormal; DeLong.
        auc_all_targets: of the mean over targets, for records like these.
        auc_without_leakage: of the same where nothing leaks, at 99%, as a gate requires.
        record_advantage: of one record's TPR - FPR, both 1/2, each over half of the models; None for one
            target, which cannot tell.
        rates: one per budget.
        unreliable: why every figure is unreliable; None where models are enough.
    """

    lowest_fpr: float
    lowest_fpr_pooled: float
    auc_one_target: float
    auc_all_targets: float
    auc_without_leakage: float
    record_advantage: float | None
    rates: tuple[RateResolution, ...]
    unreliable: str | None


@dataclass(frozen=True)
class Cost:
    """What training and judging take."""

    training: Training
    time: Time
    memory: Memory
    disk: Disk


@dataclass(frozen=True)
class Plan:
    """What an audit costs and what it can resolve.

    Attributes:
        population: models and records.
        cost: of training and judging; None where nothing is trained.
        resolution: what the figures can tell apart.
        exposed: how many exposed records the models can detect; None for one target.
        undecidable: limits of the gate that this audit cannot pass, with the reason.
        suggested: limits to begin with.
        claim: what the audit can say about a claim of differential privacy; None: nothing is claimed.
        columns: how the columns of a table were read, and likely mistakes in them; empty for other records.
        unit: the column that says whose record it is, so that sizes are about units; None: about records.
    """

    population: Sizes
    cost: Cost | None
    resolution: Resolution
    exposed: Detectable | None
    undecidable: tuple[str, ...]
    suggested: SuggestedGate
    claim: PlannedClaim | None
    columns: tuple[str, ...] = ()
    unit: str | None = None


def plan_audit(settings: AuditSettings, source: Source) -> Plan:
    """The cost and the resolution of an audit; raises what the audit would raise."""
    with as_audits_run(source):
        return _plan(prepare(settings, source))


def _plan(prepared: PreparedAudit) -> Plan:
    sizes, config = prepared.sizes, prepared.config
    n_targets = len(prepared.is_member)
    resolved = resolution(n_targets, sizes.members, sizes.nonmembers, config.fpr_budgets)
    exposed = detectable_records(n_targets, sizes.records) if n_targets > 1 else None
    cost = None if prepared.request is None else _cost(prepared.request, config)
    return Plan(
        sizes,
        cost,
        resolved,
        exposed,
        ()
        if config.gate is None
        else tuple(
            undecidable_limits(
                config.gate, resolved, n_targets, sizes.records, config.n_references(sizes.models)
            )
        ),
        gate_to_begin_with(
            config.fpr_budgets,
            sizes.nonmembers,
            resolved.auc_without_leakage,
            n_targets >= models_to_pass(0.01, sizes.records),
        ),
        plan_claim(prepared, None if cost is None else cost.time.training),
        tuple(prepared.columns),
        config.unit,
    )


def undecidable_limits(
    gate: Gate, resolved: Resolution, n_targets: int, n_records: int, n_references: int | None = None
) -> Iterator[str]:
    """Limits that even models that reveal nothing would not pass.

    Args:
        gate: the limits.
        resolved: what the design can tell apart.
        n_targets: number of models that are attacked.
        n_records: number of records.
        n_references: reference models of a given model; None in a population.
    """
    why_few = None if n_references is None else why_too_few(n_references)
    if why_few is not None:
        yield f"any limit: {why_few}"
    if gate.max_epsilon is not None:
        yield "max_epsilon: an audit bounds epsilon from below only"
    if gate.max_auc is not None and 0.5 + resolved.auc_without_leakage > gate.max_auc:
        yield (
            f"max_auc = {gate.max_auc:g}: even without leakage, the 99% interval will reach "
            f"{0.5 + resolved.auc_without_leakage:.3f}"
        )
    tpr_reasons = {rate.fpr: rate.reason for rate in resolved.rates}
    for limit in gate.max_tpr:
        if tpr_reasons.get(limit.fpr):
            yield f"max_tpr at {100 * limit.fpr:g}% FPR: {tpr_reasons[limit.fpr]}"
    share = gate.max_exposed_share
    if share is not None and n_targets < 2:
        yield "max_exposed_share: single records are only evaluated in a population of models"
    elif share is not None and n_targets < (needed := models_to_pass(share, n_records)):
        yield f"max_exposed_share = {share:g}: it takes about {needed} models to show that so few are exposed"


def _cost(request: TrainingRequest, config: EvaluationConfig) -> Cost:
    recipe = request.recipe
    trial: Networks | Fits
    if isinstance(recipe, AdapterRecipe):
        trial = Adapters(request, recipe)
    else:
        trial = Networks(request, recipe) if isinstance(recipe, Recipe) else Fits(request, recipe)
    n_scores = len(config.attacks) + 2  # arrays: one per attack, one of single records, one sorted
    return Cost(
        trial.training,
        _time(trial, request, config),
        _memory(trial, request, n_scores),
        _disk(request, trial.training.blocks, n_scores),
    )


def _disk(request: TrainingRequest, blocks: int, score_arrays: int) -> Disk:
    """The bank's arrays, and arrays of scores while they are judged; other files are small and left out."""
    records, models = request.records, request.design.n_models
    per_signal = models * len(request.recipe.evaluated_epochs) * len(records)
    numbers = {name: per_signal * _signal_bytes(name, request) for name in request.signal_names}
    files = {name: _NPY_HEADER + n_bytes for name, n_bytes in numbers.items()}
    labels_and_design = 2 * _NPY_HEADER + records.labels.nbytes + models * len(records)
    finished = sum(files.values()) + labels_and_design
    in_blocks = sum(numbers.values()) + blocks * len(files) * _NPY_HEADER
    scores = 8 * models * len(records)
    on_scratch = score_arrays * scores if scores > IN_MEMORY.in_memory_bytes else 0
    return Disk(files, finished, finished + max(in_blocks, on_scratch))


def resolution(targets: int, n_members: int, n_nonmembers: int, fpr_budgets: Sequence[float]) -> Resolution:
    """What so many targets with so many members and non-members each can tell apart."""
    shift = np.sqrt(2) * scipy.special.ndtri(SUPPOSED_AUC)
    auc = delong_of_split(SplitScores(_normal_quantiles(n_members) + shift, _normal_quantiles(n_nonmembers)))
    one_target = _half_width(auc.interval)
    all_targets, without_leakage = (
        one_target,
        one_target * scipy.special.ndtri(0.995) / scipy.special.ndtri(0.975),
    )
    if targets > 1:
        error = _SHARED_BY_TARGETS * auc.standard_error / np.sqrt(targets)
        of_models, without_leakage = scipy.special.stdtrit(targets - 1, (0.975, 0.995)) * error
        of_records = _between_records(2 * SUPPOSED_AUC - 1, n_members + n_nonmembers) / 2
        all_targets = float(np.hypot(of_models, of_records))
    return Resolution(
        lowest_fpr=1 / n_nonmembers,
        lowest_fpr_pooled=1 / (targets * n_nonmembers),
        auc_one_target=one_target,
        auc_all_targets=all_targets,
        auc_without_leakage=float(without_leakage),
        record_advantage=_record_half_width(targets) if targets > 1 else None,
        rates=tuple(_rate_resolution(fpr, targets, n_members, n_nonmembers) for fpr in fpr_budgets),
        unreliable=too_few_models(targets) if targets > 1 else None,
    )


def _time(trial: Networks | Fits, request: TrainingRequest, config: EvaluationConfig) -> Time:
    started = time.perf_counter()
    try:
        training = trial.seconds().widened()
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"a block of {block_size_of(request)} models does not fit on {request.device} ({error}); "
            "take a smaller network or batch_size, or device='cpu'"
        ) from error
    judging = judging_seconds(request, config).widened()
    return Time(training, judging, training + judging, trial.how(), time.perf_counter() - started)


def _memory(trial: Networks | Fits, request: TrainingRequest, n_scores: int) -> Memory:
    """From shapes alone, by the formulas of docs/plan.md."""
    records, recipe = request.records, request.recipe
    is_image, on_gpu = records.features.dtype == np.uint8, device_of(request.device).type == "cuda"
    n_copied = records.features.size if isinstance(recipe, Recipe) and (is_image or on_gpu) else 0
    on_disk = is_mapped(records.features)
    held = (0 if on_disk else records.features.nbytes) + records.labels.nbytes + 4 * n_copied
    held += 0 if records.frame is None else records.frame.nbytes
    parameters, workspace = trial.memory()
    row = sum(_signal_bytes(name, request) for name in request.signal_names)
    signals = 2 * block_size_of(request) * len(recipe.evaluated_epochs) * len(records) * row
    judging = _judging_bytes(request, n_scores)
    standardising = 2 * 4 * n_copied * is_image  # over before training begins
    peak = held + max(parameters + workspace + signals, judging, standardising)
    return Memory(held, parameters, workspace, signals, judging, peak)


def _judging_bytes(request: TrainingRequest, n_scores: int) -> int:
    n_models, n_records = request.design.in_mask.shape
    scores = 8 * n_models * n_records
    in_memory = 0 if scores > IN_MEMORY.in_memory_bytes else scores * n_scores
    in_blocks = 8 * _BLOCK_ARRAYS * n_models * min(n_records, RECORDS_AT_ONCE * (os.cpu_count() or 1))
    logits = 3 * scores * request.records.n_classes * ("logits" in request.signal_names)
    queries = 8 * _n_steps(request) * n_models * min(n_records, EbLira().fitted_records)
    in_replicates = 8 * _REPLICATE_ARRAYS * min(n_models * n_records, SAMPLED_SCORES)
    return int(in_memory + in_blocks + 8 * _RECORD_VECTORS * n_records + logits + queries + in_replicates)


def _n_steps(request: TrainingRequest) -> int:
    """Outputs of a model about a record where it is queried several times; else 0."""
    return request.queries * len(request.recipe.evaluated_epochs) if request.queries > 1 else 0


def _signal_bytes(name: str, request: TrainingRequest) -> int:
    """Bytes of one signal of one record."""
    records = request.records
    several = {"logits": 4 * records.n_classes, QUERY_LOG_ODDS: 4 * request.queries}
    several[TOKEN_LOG_PROBS] = 4 * (records.features.shape[-1] - 1)
    several["correct"] = 4 if records.is_language else 1  # a share, or true and false
    return several.get(name, 4)


def _between_records(mean: float, n_records: int) -> float:
    """Half width for a figure between 0 and 1 that is a mean over records, due to another sample of them.

    Of all records with this mean, those differ most of which some are fully exposed and others not at all.
    Another sample is queried and also trained on, so it counts twice.
    """
    return float(scipy.special.ndtri(0.975) * np.sqrt(2 * mean * (1 - mean) / n_records))


def _rate_resolution(fpr: float, models: int, n_members: int, n_nonmembers: int) -> RateResolution:
    tpr = max(_LEAST_TPR, min(2 * fpr, (1 + fpr) / 2))  # an attack that gains nothing has a TPR of `fpr`
    one, pooled = (_half_width(clopper_pearson(round(tpr * n), n)) for n in (n_members, models * n_members))
    of_all = one
    if models > 1:
        of_all = float(np.hypot(pooled, _between_records(tpr, n_members + n_nonmembers)))
    reason = why_unresolvable(fpr, n_members, n_nonmembers)
    return RateResolution(fpr, tpr, ceil(1 / fpr - 1e-9), one, of_all, reason)


def _record_half_width(models: int) -> float:
    """Half width of the advantage of a record that half of the models on each side call a member."""
    model = np.arange(models)[:, None]
    risk = record_risk(model % 4 < 2, model % 2 == 0)
    return float(risk.table.advantage_high[0] - risk.table.advantage_low[0]) / 2


def _normal_quantiles(n: int) -> FloatArray:
    quantiles: FloatArray = scipy.special.ndtri((np.arange(n) + 0.5) / n)
    return quantiles


def _half_width(interval: Interval) -> float:
    return (interval.high - interval.low) / 2
