"""The sentences and tables of the dynamics study, for its report and the screen: the main result first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from leakscope.dynamics.jackknife import AdvantageVariation
from leakscope.errors import InputError
from leakscope.hardness.correlations import BINS
from leakscope.hardness.registry import measure_label
from leakscope.report.gauge import Gauge
from leakscope.report.phrases import counted, percent
from leakscope.report.study_page import NO_COMMAND, Command, around, options
from leakscope.stats.intervals import fisher_interval
from leakscope.studies.dynamics.failure_signatures import failure_signatures
from leakscope.studies.dynamics.results import (
    DynamicsResults,
    Figure,
    Number,
    RunFigures,
    RunResults,
)
from leakscope.studies.dynamics.settings import PRESETS, DynamicsConfig, Setting, config_of

SUMMARY = ("figure", "measured", "± standard error", "noise floor", "range of the floor")
COMPARED = (
    "run",
    "advantage",
    "vulnerable",
    "net shift",
    "path",
    "entropy",
    "peak entry",
    "per epoch",
    "70% by",
)
COMPARED_NOTE = (
    "Advantage and vulnerable records at the end; net shift and path length of the center of mass in % of "
    "the plane's side; change of the spatial entropy in bits; peak probability of entering the corner, per "
    "checkpoint and per epoch; epoch by which 70% of the finally vulnerable records are in the corner."
)
HARDNESS = (
    "hardness",
    "Pearson r",
    "Spearman",
    "r among the vulnerable",
    "r of 20 bins",
    "the same among the vulnerable",
    "partial, given the loss",
)
EARLY = ("measure", "epoch", "Pearson r", "Spearman", "r among the vulnerable", "r of 20 bins")
ENTROPY = ("models", "cells per side", "first checkpoint", "last checkpoint", "change", "change by chance")


class _Row(NamedTuple):
    """How a figure is printed."""

    figure: str
    label: str
    factor: float = 1
    unit: str = ""
    decimals: int = 1
    is_compared: bool = True

    def text(self, number: float | None) -> str:
        return "undefined" if number is None else f"{self.factor * number:.{self.decimals}f}"


_AT_THE_END = (
    _Row("advantage", "mean advantage at the end", decimals=3),
    _Row("vulnerable", "records in the vulnerable corner at the end", 100, "%"),
    _Row("entropy", "spatial entropy at the end", unit="bits", decimals=2),
)
_OVER_TRAINING = (
    _Row("net_displacement", "center of mass, net displacement", unit="% of side"),
    _Row("path_length", "center of mass, path length", unit="% of side"),
    _Row("entropy_change", "spatial entropy, last minus first", unit="bits", decimals=2),
    _Row("peak_entry", "peak entry between checkpoints", 100, "%"),
    _Row("peak_entry_of_all", "the same, as a share of all records", 100, "%", is_compared=False),
    _Row("peak_entry_per_epoch", "peak entry probability per epoch", 100, "%", 2),
    _Row("first_epoch", "first epoch with 70% of the finally vulnerable", decimals=0),
    _Row("first_epoch_ever", "the same, if ever in the corner counts", decimals=0, is_compared=False),
)


def headline(results: DynamicsResults) -> list[str]:
    """The main result with its interval."""
    if len(results.runs) == 1:
        (run,) = results.runs.values()
        population, _, *rest = sentences(run)
        return [_exposure_sentence(run), *rest, population]
    by_exposure = sorted(results.runs.items(), key=lambda pair: -_vulnerable_share(pair[1]))
    (most, first), (least, last) = by_exposure[0], by_exposure[-1]
    return [
        f"Of {len(by_exposure)} runs, {most} exposes the most records at the end, {_share_text(first)}, "
        f"and {least} the fewest, {_share_text(last)}.",
        *_difference_sentences(first, last),
        "A record is exposed in the vulnerable corner of the plane, where an attacker is usually right. Each "
        "run is a population of models of its own; intervals come from leaving out groups of models.",
    ]


def command(config: DynamicsConfig) -> Command:
    """The command line that runs this study; empty where no preset with options gives exactly this config."""
    populations = 1 + max(setting.population for setting in config.settings)
    if config.settings[0].bank or config.settings[0].config:
        return _command_of_subject(config, populations)
    candidates = _presets(config, populations)
    if not candidates:
        return NO_COMMAND
    preset, changes = min(candidates, key=lambda pair: len(pair[1]))
    stores_logits = changes.pop("store_logits", None)
    logits = [] if stores_logits is None else ["--logits" if stores_logits else "--no-logits"]
    more = options(changes | _judging(config, populations))
    return Command(
        ("leakscope", "study", "dynamics", "--preset", preset, *more, *logits, "--out", "runs/again")
    )


def _command_of_subject(config: DynamicsConfig, populations: int) -> Command:
    """The command line of a given bank or of a config file, which decide much of the setting themselves."""
    setting, default = config.settings[0], Setting()
    subject = ("--bank", setting.bank) if setting.bank else ("--config", "FILE.toml")
    decided = _OF_BANK if setting.bank else _OF_CONFIG
    given = {name: value for name, value in vars(setting).items() if name not in decided}
    changes = {name: value for name, value in given.items() if value != getattr(default, name)}
    more = options(changes | _judging(config, populations))
    return Command(("leakscope", "study", "dynamics", *subject, *more, "--out", "runs/again"))


def _judging(config: DynamicsConfig, populations: int) -> dict[str, object]:
    """How models are judged, as options of the command line that differ from their defaults."""
    judging = {"populations": (populations, 1), "attack": (config.attack, "lira"), "fpr": (config.fpr, None)}
    return {name: value for name, (value, usual) in judging.items() if value != usual}


_OF_BANK = ("bank", "config", "population", "models", "universe", "epochs", "every", "store_logits")
_OF_CONFIG = ("bank", "config", "population", "dataset", "net", "optimizer", "epochs", "batch_size", "lr",
              "precision", "models", "design", "seed", "store_logits")  # fmt: skip


def _presets(config: DynamicsConfig, populations: int) -> list[tuple[str, dict[str, object]]]:
    """The presets that give this config, each with the options needed on top."""
    candidates = []
    for preset, settings in PRESETS.items():
        first = vars(settings[0])
        changes = {name: value for name, value in vars(config.settings[0]).items() if value != first[name]}
        try:
            made = config_of(preset, populations, config.attack, config.fpr, **changes)
        except InputError:  # the settings differ in something that this preset does not vary
            continue
        if made == config and None not in changes.values():  # an option cannot be None
            candidates.append((preset, changes))
    return candidates


def _exposure_sentence(run: RunResults) -> str:
    vulnerable = run.figures.vulnerable.last
    high = vulnerable.floor.high
    is_chance = high is not None and _vulnerable_share(run) <= high
    verdict = " The share is no larger than chance explains." if is_chance else ""
    return (
        f"At the end of training, {_share_text(run)} of the records are in the vulnerable corner, where an "
        f"attacker is usually right; chance alone puts {percent(vulnerable.floor.mean)} there.{verdict}"
    )


def _vulnerable_share(run: RunResults) -> float:
    return run.figures.vulnerable.last.value or 0.0


def _difference_sentences(most: RunResults, least: RunResults) -> list[str]:
    """The difference of two runs' shares; the runs are independent."""
    a, b = (run.figures.vulnerable.last for run in (most, least))
    if a.standard_error is None or b.standard_error is None:
        return []
    difference = _vulnerable_share(most) - _vulnerable_share(least)
    ends = around(difference, math.hypot(a.standard_error, b.standard_error), least=-1.0)
    low, high = (100 * end for end in ends or ())
    undecided = "" if low > 0 else ", so which of them exposes more is not decided"
    return [
        f"They differ by {100 * difference:.1f} percentage points (95% interval {low:.1f} to {high:.1f})"
        f"{undecided}."
    ]


def _share_text(run: RunResults) -> str:
    vulnerable = run.figures.vulnerable.last
    ends = around(_vulnerable_share(run), vulnerable.standard_error)
    interval = "" if ends is None else f" (95% interval {percent(ends[0])} to {percent(ends[1])})"
    return f"{percent(vulnerable.value)}{interval}"


def gauge(run: RunResults) -> Gauge:
    """The share of vulnerable records at the end, with the noise floor as reference."""
    vulnerable, value = run.figures.vulnerable.last, _vulnerable_share(run)
    low, high = around(value, vulnerable.standard_error) or (None, None)
    largest = max(value, vulnerable.floor.mean or 0.0, high or 0.0)
    end = min(1.0, max(0.05, math.ceil(25 * largest) / 20))
    return Gauge("Records in the vulnerable corner at the end", value, low, high, 0.0, end,
                 reference=vulnerable.floor.mean, reference_label="by chance", percent=True)  # fmt: skip


def facts(results: DynamicsResults) -> list[tuple[str, str]]:
    """What was run."""
    runs = list(results.runs.values())
    first, several = runs[0], len(runs) > 1
    records = f"{first.population.records:,} of {first.setting.dataset}"
    return [
        *([("Runs", ", ".join(results.runs))] if several else []),
        ("Records", records + (" (first run)" if several else "")),
        ("Models", f"{sum(run.population.models for run in runs)}, each on a random half"),
        ("Training", ", ".join(dict.fromkeys(_training_text(run.setting) for run in runs))),
        ("Checkpoints", f"{len(first.epochs)}, epochs {first.epochs[0]} to {first.epochs[-1]}"),
        ("Decisions by", results.conventions["decision"]),
    ]


def _training_text(setting: Setting) -> str:
    return f"{setting.net}, {setting.optimizer}, {setting.epochs} epochs, batch size {setting.batch_size}"


def limits(results: DynamicsResults) -> list[str]:
    """What the page does not cover."""
    n_in, side = next(iter(results.runs.values())).population.models // 2, results.config.side
    return [
        "The results hold for populations trained on random halves of these records; a model trained in "
        "another way may expose others.",
        f"A record's rates are shares of about {n_in} models, so the position of a single record is rough; "
        "compare with the noise floor.",
        f"One attack decides ({results.config.attack}); a stronger one may expose more.",
        f"The corner is a convention: a false positive rate (FPR) below {1 / side:.0%} and a true positive "
        f"rate (TPR) of at least {1 - 1 / side:.0%}.",
    ]


def sentences(run: RunResults) -> list[str]:
    """What was trained and what came out."""
    setting, population, vulnerable = run.setting, run.population, run.figures.vulnerable.last
    members, nonmembers = run.accuracy.members[-1], run.accuracy.nonmembers[-1]
    accuracy = f" Accuracy: {percent(members)} on members, {percent(nonmembers)} on non-members."
    accuracy = "" if members is None else accuracy
    lines = [
        f"{population.models} models ({setting.net}, {setting.optimizer}, {setting.epochs} epochs), each "
        f"trained on a random half of the {population.records:,} records of {setting.dataset}.{accuracy}",
        f"At the end, {percent(vulnerable.value)} of the records are in the vulnerable corner; chance alone "
        f"puts {percent(vulnerable.floor.mean)} there.",
    ]
    if len(run.epochs) > 1:
        lines += _first_epoch(run)
    if population.diverged_models:
        lines.append(f"{counted(population.diverged_models, 'model')} diverged and were excluded.")
    if population.judged_records < population.records:
        missing = counted(population.records - population.judged_records, "record")
        lines.append(f"Not judged, because every model or no model was trained on them: {missing}.")
    return [*lines, *run.undefined, *failure_signatures(run)]


def _first_epoch(run: RunResults) -> list[str]:
    """When most of the finally vulnerable records were there; at the last checkpoint all of them are."""
    first, by_chance = run.figures.first_epoch.value, run.figures.first_epoch.floor.mean
    if first is None:
        return []
    if first >= run.epochs[-1]:
        return ["Fewer than 70% of them were there at any earlier checkpoint."]
    chance = "" if by_chance is None else f"; under permuted memberships, by epoch {by_chance:.0f}"
    return [f"70% of them were already there by epoch {first:.0f} of {run.setting.epochs}{chance}."]


def summary_rows(run: RunResults) -> list[list[str]]:
    """One row per figure: value, standard error, noise floor."""
    rows = [_summary_row(row, getattr(run.figures, row.figure).last) for row in _AT_THE_END]
    if len(run.epochs) > 1:
        rows += [_summary_row(row, getattr(run.figures, row.figure)) for row in _OVER_TRAINING]
    return rows


def compared_rows(results: DynamicsResults, with_errors: bool = True) -> list[list[str]]:
    """One row per run: the figures that are compared."""
    return [[name, *_compared_cells(run.figures, with_errors)] for name, run in results.runs.items()]


def variation_sentence(advantage: AdvantageVariation) -> str:
    """How much the advantage varies, next to the limit of the publication."""
    if advantage.coefficient is None:
        return f"The coefficient of variation of the advantage is undefined: {advantage.reason}."
    of_a_record = advantage.vulnerable_coefficient
    single = "" if of_a_record is None else f"; for a single vulnerable record {of_a_record:.2f} (median)"
    return (
        f"The mean advantage at the end is {advantage.mean:.3f} ± {advantage.standard_error:.3f} "
        f"({advantage.method}). Its coefficient of variation is {advantage.coefficient:.3f}{single}; the "
        f"publication requires less than {advantage.published_limit:g}."
    )


def hardness_rows(run: RunResults) -> list[list[str]]:
    """One row per measure of hardness."""
    return [
        [measure_label(measure), str(row.pearson), str(row.spearman), str(row.among_vulnerable),
         str(row.binned), str(row.binned_among_vulnerable), str(row.partial_given_loss)]
        for measure, row in run.hardness.items()
    ]  # fmt: skip


HARDNESS_NOTE = (
    "Intervals treat the records as independent and the models as fixed. Bins average over records, so their "
    "correlation is higher than that of single records."
)


def early_rows(run: RunResults, measures: Sequence[str] | None = None) -> list[list[str]]:
    """How well measures at a tenth, a quarter, half and the end of training predict the final advantage.

    Only the named measures, or all of them.
    """
    at = sorted({_nearest(run.epochs, share) for share in (0.1, 0.25, 0.5, 1.0)})
    return [
        [measure_label(measure), str(run.epochs[k]), *_early_cells(run, measure, k)]
        for measure, early in run.early_hardness.items()
        for k in at
        if early.pearson[k] is not None and (measures is None or measure in measures)
    ]


def _nearest(epochs: tuple[int, ...], share: float) -> int:
    return min(range(len(epochs)), key=lambda k: abs(epochs[k] - share * epochs[-1]))


def _early_cells(run: RunResults, measure: str, k: int) -> list[str]:
    early = run.early_hardness[measure]
    at_end = run.hardness.get(measure)  # it knows over how many vulnerable records
    n_vulnerable = at_end.among_vulnerable.n if at_end else 0
    return [
        _with_interval(early.pearson[k], early.n),
        _with_interval(early.spearman[k], early.n, rank=True),
        _with_interval(early.among_vulnerable[k], n_vulnerable),
        "not computed" if early.binned[k] is None else _with_interval(early.binned[k], BINS),
    ]


def _with_interval(r: float | None, n: int, rank: bool = False) -> str:
    """A correlation of n points with its 95% interval."""
    if r is None:
        return "undefined"
    ends = fisher_interval(r, n, rank=rank)
    return f"{r:.3f}" if math.isnan(ends.low) else f"{r:.3f} ({ends.low:.2f} to {ends.high:.2f})"


def entropy_rows(run: RunResults) -> list[list[str]]:
    """The spatial entropy for several numbers of models and cells."""
    return [
        [
            str(f.models),
            str(f.cells),
            *(f"{bits:.2f}" for bits in (f.first, f.last, f.change, f.floor_change)),
        ]
        for f in run.entropy_by_resolution
    ]


def population_sentences(results: DynamicsResults) -> list[str]:
    """How much independent populations of each setting differ."""
    return [f"{name}: {variation_sentence(spread.advantage)}" for name, spread in results.populations.items()]


def _summary_row(row: _Row, figure: Figure[Number]) -> list[str]:
    floor = figure.floor
    label = f"{row.label} ({row.unit})" if row.unit else row.label
    span = "undefined" if floor.low is None else f"{row.text(floor.low)} to {row.text(floor.high)}"
    return [label, row.text(figure.value), row.text(figure.standard_error), row.text(floor.mean), span]


def _compared_cells(figures: RunFigures, with_errors: bool) -> list[str]:
    at_the_end = [(row, getattr(figures, row.figure).last) for row in _AT_THE_END[:2]]
    over_training = [(row, getattr(figures, row.figure)) for row in _OVER_TRAINING if row.is_compared]
    return [_compared_cell(row, figure, with_errors) for row, figure in (*at_the_end, *over_training)]


def _compared_cell(row: _Row, figure: Figure[Number], with_errors: bool) -> str:
    if figure.value is None:
        return "undefined"
    has_error = with_errors and figure.standard_error is not None
    error = f" ± {row.text(figure.standard_error)}" if has_error else ""
    return f"{row.text(figure.value)}{error}{'%' if row.unit.startswith('%') else ''}"
