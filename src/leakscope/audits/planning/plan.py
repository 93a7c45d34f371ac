"""What an audit takes and what it can tell: time from the trial, the rest from shapes and the design."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from scipy import special

from leakscope.array_types import FloatArray
from leakscope.audits.planning.trial import Fits, Networks, Request, Seconds, Training, judging_seconds
from leakscope.audits.population import (
    DEFAULT_ATTACKS,
    DEFAULT_FPR_BUDGETS,
    check_questions,
    evaluation_config,
    required_signals,
)
from leakscope.design import make_design
from leakscope.disk.mmap_rows import is_mapped
from leakscope.disk.scratch import IN_MEMORY, RECORDS_AT_ONCE
from leakscope.engine import local
from leakscope.errors import TrainingError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.results import EvaluationConfig
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.stats.intervals import Interval, clopper_pearson, delong_of_split
from leakscope.stats.per_record import record_risk
from leakscope.stats.roc import SplitScores, why_unresolvable
from leakscope.types import Records

SUPPOSED_AUC, SUPPOSED_TPR = 0.6, 0.05
"""What widths of intervals are computed under."""

_NPY_HEADER = 128  # bytes before the numbers of a .npy file
_BLOCK_ARRAYS = 12  # float64 (models, block) at the peak of LiRA, in every thread
_RECORD_VECTORS = 24  # float64 (records,) at the peak of judging, see docs/scale.md


@dataclass(frozen=True)
class Population:
    """Who is asked about whom; members and non-members of the target that has fewest."""

    models: int
    records: int
    members: int
    nonmembers: int


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
    """The TPR at one FPR budget; half widths of 95% intervals where it is `SUPPOSED_TPR`."""

    fpr: float
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
        auc_all_targets: of the mean over targets; t.
        record_advantage: of one record's TPR - FPR, both 1/2, each over half of the models.
        rates: one a budget.
    """

    lowest_fpr: float
    lowest_fpr_pooled: float
    auc_one_target: float
    auc_all_targets: float
    record_advantage: float
    rates: tuple[RateResolution, ...]


@dataclass(frozen=True)
class Plan:
    """What an audit will cost and what it can resolve."""

    population: Population
    training: Training
    time: Time
    memory: Memory
    disk: Disk
    resolution: Resolution


def plan_audit(
    records: Records,
    recipe: AnyRecipe,
    models: int = 64,
    seed: int = 0,
    design: str = "balanced",
    attacks: Sequence[str] = DEFAULT_ATTACKS,
    fpr_budgets: Sequence[float] = DEFAULT_FPR_BUDGETS,
    signals: Sequence[str] = (),
    gate: Gate | None = None,
    device: str = "auto",
) -> Plan:
    """What `leakscope.audits.population` would do with these arguments; raises what it would raise."""
    check_questions(attacks, fpr_budgets)
    population = make_design(design, models, len(records), seed)
    kept = required_signals(attacks, signals)
    identity = local.check_request(records, population, recipe, seed, kept, device)
    config = evaluation_config(records.name, attacks, fpr_budgets, gate)
    request = Request(records, population, recipe, identity, local.device_of(device))
    trial = Networks(request, recipe) if isinstance(recipe, Recipe) else Fits(request, recipe)
    n_members = population.in_mask.sum(axis=1)
    fewest = int(n_members.min()), int((len(records) - n_members).min())
    n_checkpoints = len(recipe.evaluated_epochs)
    return Plan(
        Population(models, len(records), *fewest),
        trial.training,
        _time(trial, request, config),
        _memory(trial, request, len(attacks)),
        disk_bytes(
            records,
            identity.signals,
            models,
            n_checkpoints,
            trial.training.blocks,
            _n_score_arrays(len(attacks)),
        ),
        resolution(models, *fewest, config.fpr_budgets),
    )


def disk_bytes(
    records: Records,
    signals: Sequence[str],
    models: int,
    checkpoints: int,
    blocks: int,
    score_arrays: int = 0,
) -> Disk:
    """The bank's arrays, and scores while they are judged; the rest, which is small, is left out.

    Args:
        records: to be asked about.
        signals: kept.
        models: in all.
        checkpoints: of each.
        blocks: they are trained in.
        score_arrays: of one score a model and record, on disk where they are large.
    """
    numbers = {name: models * checkpoints * len(records) * _signal_bytes(name, records) for name in signals}
    files = {name: _NPY_HEADER + n_bytes for name, n_bytes in numbers.items()}
    labels_and_design = 2 * _NPY_HEADER + records.labels.nbytes + models * len(records)
    finished = sum(files.values()) + labels_and_design
    in_blocks = sum(numbers.values()) + blocks * len(files) * _NPY_HEADER
    scores = 8 * models * len(records)
    on_scratch = score_arrays * scores if scores > IN_MEMORY.in_memory_bytes else 0
    return Disk(files, finished, finished + max(in_blocks, on_scratch))


def resolution(models: int, n_members: int, n_nonmembers: int, fpr_budgets: Sequence[float]) -> Resolution:
    """What so many targets with so many members and non-members each can tell apart."""
    shift = np.sqrt(2) * special.ndtri(SUPPOSED_AUC)
    auc = delong_of_split(SplitScores(_normal_quantiles(n_members) + shift, _normal_quantiles(n_nonmembers)))
    return Resolution(
        lowest_fpr=1 / n_nonmembers,
        lowest_fpr_pooled=1 / (models * n_nonmembers),
        auc_one_target=_half_width(auc.interval),
        auc_all_targets=float(special.stdtrit(models - 1, 0.975) * auc.standard_error / np.sqrt(models)),
        record_advantage=_record_half_width(models),
        rates=tuple(_rate_resolution(fpr, models, n_members, n_nonmembers) for fpr in fpr_budgets),
    )


def _time(trial: Networks | Fits, request: Request, config: EvaluationConfig) -> Time:
    started = time.perf_counter()
    try:
        training = trial.seconds().widened()
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"a block of {request.block_size} models does not fit on {request.device} ({error}); "
            "take a smaller network or batch_size, or device='cpu'"
        ) from error
    judging = judging_seconds(request, config).widened()
    return Time(training, judging, training + judging, trial.how(), time.perf_counter() - started)


def _memory(trial: Networks | Fits, request: Request, n_attacks: int) -> Memory:
    """From shapes alone, by the formulas of docs/plan.md."""
    records, recipe, kept = request.records, request.recipe, request.identity.signals
    is_image, on_gpu = records.features.dtype == np.uint8, request.device.type == "cuda"
    n_copied = records.features.size if isinstance(recipe, Recipe) and (is_image or on_gpu) else 0
    on_disk = is_mapped(records.features)
    held = (0 if on_disk else records.features.nbytes) + records.labels.nbytes + 4 * n_copied
    parameters, workspace = trial.memory()
    row = sum(_signal_bytes(name, records) for name in kept)
    signals = 2 * request.block_size * len(recipe.evaluated_epochs) * len(records) * row
    judging = _judging_bytes(request, n_attacks)
    standardising = 2 * 4 * n_copied * is_image  # over before training begins
    peak = held + max(parameters + workspace + signals, judging, standardising)
    return Memory(held, parameters, workspace, signals, judging, peak)


def _judging_bytes(request: Request, n_attacks: int) -> int:
    n_models, n_records = request.design.in_mask.shape
    scores = 8 * n_models * n_records
    in_memory = 0 if scores > IN_MEMORY.in_memory_bytes else scores * _n_score_arrays(n_attacks)
    in_blocks = 8 * _BLOCK_ARRAYS * n_models * min(n_records, RECORDS_AT_ONCE * (os.cpu_count() or 1))
    logits = 3 * scores * request.records.n_classes * ("logits" in request.identity.signals)
    return int(in_memory + in_blocks + 8 * _RECORD_VECTORS * n_records + logits)


def _n_score_arrays(n_attacks: int) -> int:
    """Arrays (models, records) of an audit: a score an attack, those of single records, one in order."""
    return n_attacks + 2


def _signal_bytes(name: str, records: Records) -> int:
    """Bytes of one signal of one record."""
    return {"correct": 1, "logits": 4 * records.n_classes}.get(name, 4)


def _rate_resolution(fpr: float, models: int, n_members: int, n_nonmembers: int) -> RateResolution:
    one, pooled = (clopper_pearson(round(SUPPOSED_TPR * n), n) for n in (n_members, models * n_members))
    reason = why_unresolvable(fpr, n_members, n_nonmembers)
    return RateResolution(fpr, ceil(1 / fpr - 1e-9), _half_width(one), _half_width(pooled), reason)


def _record_half_width(models: int) -> float:
    """Half width of the advantage of a record that half of the models on each side call a member."""
    model = np.arange(models)[:, None]
    risk = record_risk(model % 4 < 2, model % 2 == 0)
    return float(risk.table.advantage_high[0] - risk.table.advantage_low[0]) / 2


def _normal_quantiles(n: int) -> FloatArray:
    quantiles: FloatArray = special.ndtri((np.arange(n) + 0.5) / n)
    return quantiles


def _half_width(interval: Interval) -> float:
    return (interval.high - interval.low) / 2
