"""Compares audits of the same records with the first of them: does a defence help, and what does it cost?

    comparison = compare(["runs/plain", "runs/dropout"], out="runs/compare")
    print(comparison)

Leakage decides: a run is a regression when a leakage figure over all records is higher than the baseline's
and its simultaneous interval (Bonferroni over attacks, figures and runs) excludes zero. Accuracy on
non-members is the cost; it is reported and decides nothing. Groups and single records are exploratory: their
intervals hold one by one, and single records have a false discovery rate of 5%.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from leakscope.bank.results import write_results
from leakscope.bank.run_folder import as_corrupt_run_error, differences, locked_run_folder
from leakscope.compare.audits import FinishedAudit, common_spec, left_out, open_audits, run_summary, signs_in
from leakscope.compare.figures import OneModelFigures, one_model_figures, population_figures
from leakscope.compare.records import changed_records, write_changes
from leakscope.compare.results import (
    AccuracyDifferences,
    ComparisonConfig,
    ComparisonResults,
    DifferenceFigure,
    GroupDifference,
    IntervalLevels,
    LeakageDifference,
    LeakageMeasure,
    Outcome,
    RunComparison,
)
from leakscope.compare.sentences import summary
from leakscope.compare.spec import LEVEL, ComparisonSpec, FigureKey
from leakscope.compare.tables import all_differences
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, inherited, stay_redacted
from leakscope.errors import ExitCode, printable
from leakscope.evaluate.attacked import converged_models, without_records
from leakscope.report.notebook import summary_and_table
from leakscope.report.page import pages_to_write
from leakscope.stats.differences import Difference, Replicated, jackknife_difference, recovered_difference
from leakscope.stats.intervals import Interval
from leakscope.user_code import named_by_a_run

KIND = "compare"
RESULTS_TYPE = ComparisonResults
_Figures = Replicated | OneModelFigures  # of a population, of one given model


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison. `print(comparison)` prints its summary; a notebook also displays tables.

    Attributes:
        results: the content of results.json.
        folder: the run folder.
    """

    results: ComparisonResults
    folder: Path

    @property
    def is_regression(self) -> bool:
        """True when some run leaks more than the baseline, by at least one figure."""
        return self.results.regression

    @property
    def exit_code(self) -> ExitCode:
        """How a pipeline should end: nothing is concluded from audits whose checks failed."""
        if any(run.hygiene_failed for run in self.results.runs):
            return ExitCode.INCONCLUSIVE
        return ExitCode.GATE_FAILED if self.is_regression else ExitCode.SUCCESS

    def summary(self) -> list[str]:
        """The comparison in plain sentences, run by run."""
        return summary(self.results)

    def __str__(self) -> str:
        return printable("\n".join(self.summary()))

    def _repr_html_(self) -> str:
        table = all_differences(self.results)
        return summary_and_table(self.summary(), table.head, table.rows)


@named_by_a_run()
def compare(
    runs: Sequence[Path | str], out: Path | str, disclosure: Disclosure = DEFAULT_DISCLOSURE
) -> Comparison:
    """Compares audits with the first of them; writes results.json, records.parquet and the reports.

    Args:
        runs: run folders of audits, the baseline first; at least two.
        out: folder of the comparison; the folder of another run is refused.
        disclosure: what the report may disclose about single records. Where that of an audit is redacted, so
            is that of the comparison.

    Raises:
        InputError: the audits are not comparable; the message says how they differ.
    """
    folder, folders = Path(out), [Path(run) for run in runs]
    disclosure = inherited(disclosure, folders)
    with as_corrupt_run_error(*folders):
        audits = open_audits(folders)
        spec = common_spec(audits)
    # Relative paths, so that the audits and the comparison can be moved together.
    config = ComparisonConfig(tuple(Path(os.path.relpath(run, folder)).as_posix() for run in folders))
    with locked_run_folder(folder, KIND, asdict(config)):
        stay_redacted(folder, disclosure)
        with as_corrupt_run_error(*folders):
            computed = _results(audits, spec, config)
        results = write_results(folder, computed)
        if spec.record_attack is not None:
            write_changes(folder, audits[0].folder, {audit.name: audit.folder for audit in audits[1:]})
        for page in pages_to_write(folder, disclosure):
            write_reports(folder, results, page)
    return Comparison(results, folder)


def recompute(folder: Path, config: ComparisonConfig) -> ComparisonResults:
    """The results from the audits alone; `leakscope verify` compares them with the stored ones."""
    audits = open_audits([folder / run for run in config.runs])
    return _results(audits, common_spec(audits), config)


def write_reports(folder: Path, results: ComparisonResults, disclosure: Disclosure) -> None:
    """Writes one of the reports; none says anything about a single record."""
    from leakscope.compare.page import write_report

    write_report(results, folder, disclosure.redacted is True)


class _Row(NamedTuple):
    """One figure of two audits, and its difference at two levels of confidence."""

    key: FigureKey
    baseline: float
    other: float
    alone: Difference
    simultaneous: Difference


def _results(
    audits: list[FinishedAudit], spec: ComparisonSpec, config: ComparisonConfig
) -> ComparisonResults:
    n_figures = (len(audits) - 1) * (len(spec.leakage_keys()) + int(spec.with_bits))
    simultaneous_level = 1 - (1 - LEVEL) / n_figures
    figures = [_figures(audit, spec, audits) for audit in audits]
    comparisons = tuple(
        _compared((audits[0], audit), (figures[0], own), spec, simultaneous_level)
        for audit, own in zip(audits[1:], figures[1:], strict=True)
    )
    return ComparisonResults(
        experiment="compare",
        config=config,
        intervals=IntervalLevels(LEVEL, simultaneous_level, n_figures),
        runs=tuple(map(run_summary, audits)),
        strongest_attack=spec.strongest_attack,
        left_out=left_out(audits, spec),
        comparisons=comparisons,
        regression=any(comparison.is_regression for comparison in comparisons),
    )


def _figures(audit: FinishedAudit, spec: ComparisonSpec, audits: list[FinishedAudit]) -> _Figures:
    targets, signs = audit.results.config.targets, signs_in(audit, audits)
    if targets is not None:
        return one_model_figures(*converged_models(audit.bank), spec, audit.groups, targets[0], signs)
    # Models of the same design are compared in pairs, so one that diverged in any run counts in none.
    diverged = {m for a in audits if a.design_sha256 == audit.design_sha256 for m in a.bank.diverged}
    bank = audit.bank
    signals, design = without_records(bank.signals(), bank.design(), audit.canaries, bank.scratch)
    return population_figures(signals, design, spec, audit.groups, diverged, signs)


def _compared(
    audits: tuple[FinishedAudit, FinishedAudit],
    figures: tuple[_Figures, _Figures],
    spec: ComparisonSpec,
    simultaneous_level: float,
) -> RunComparison:
    is_paired = audits[0].design_sha256 == audits[1].design_sha256
    keys, levels = spec.keys(audits[0].groups), (LEVEL, simultaneous_level)
    rows = {row.key: row for row in _rows(*figures, keys, is_paired, levels)}
    leakage = [_leakage(rows[key]) for key in spec.leakage_keys()]
    if spec.with_bits:
        leakage.append(_leakage(_bits_row(*audits, simultaneous_level)))
    accuracy = [DifferenceFigure(*_figure(rows[key])) for key in spec.accuracy_keys()]
    groups: dict[str, list[GroupDifference]] = {column: [] for column in spec.columns}
    for row in rows.values():
        if row.key.column is not None:
            groups[row.key.column].append(GroupDifference(*_figure(row), group=str(row.key.group)))
    first_recipe, second_recipe = (audit.results.population.recipe for audit in audits)
    has_records = spec.record_attack is not None
    return RunComparison(
        run=audits[1].name,
        recipe_differences=recipe_differences(first_recipe, second_recipe),
        is_paired=is_paired or audits[0].results.is_of_one_model,
        leakage=tuple(leakage),
        accuracy=AccuracyDifferences(*accuracy) if accuracy else None,
        records=changed_records(*(audit.folder for audit in audits)) if has_records else None,
        groups={column: tuple(figures) for column, figures in groups.items()},
        outcome=outcome(leakage),
    )


def _rows(
    first: _Figures,
    second: _Figures,
    keys: Sequence[FigureKey],
    is_paired: bool,
    levels: tuple[float, float],
) -> Iterable[_Row]:
    """Every figure of both audits, which are of the same kind, and its difference at both levels."""
    if isinstance(first, Replicated) and isinstance(second, Replicated):
        values = first.figures.tolist(), second.figures.tolist()
        return map(_Row, keys, *values, *(jackknife_difference(first, second, is_paired, x) for x in levels))
    assert isinstance(first, OneModelFigures) and isinstance(second, OneModelFigures)
    return [
        _Row(key, first.value(key), second.value(key), *(first.difference(second, key, x) for x in levels))
        for key in keys
    ]


def recipe_differences(baseline: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs between two recipes; without the hashes of parameters where their values are named."""
    found = differences(dict(baseline), dict(other), wording="{name} is {wanted} instead of {stored}")
    are_named = any(one.startswith("parameters.") for one in found)
    return tuple(one for one in found if not (are_named and one.startswith("code.values.parameters.")))


def outcome(leakage: Sequence[LeakageDifference]) -> Outcome:
    """The outcome of a comparison, by its leakage figures."""
    outcomes = {figure.outcome for figure in leakage}
    if "higher" in outcomes:
        return "mixed" if "lower" in outcomes else "worse"
    return "helped" if "lower" in outcomes else "no difference"


def _leakage(row: _Row) -> LeakageDifference:
    low, high = row.simultaneous.interval.low, row.simultaneous.interval.high
    return LeakageDifference(
        *_figure(row),
        measure=cast(LeakageMeasure, row.key.measure),  # as every key of `leakage_keys`
        attack=row.key.attack,
        fpr=row.key.fpr,
        simultaneous_low=low,
        simultaneous_high=high,
        outcome="higher" if low > 0 else "lower" if high < 0 else "unresolved",
    )


def _figure(row: _Row) -> tuple[float, float, float, float, float, str]:
    """The fields of a `DifferenceFigure`."""
    interval = row.alone.interval
    return row.baseline, row.other, row.alone.value, interval.low, interval.high, interval.method


def _bits_row(baseline: FinishedAudit, other: FinishedAudit, simultaneous_level: float) -> _Row:
    """Bits are compared by the intervals for these records that the audits report."""
    (first, first_interval), (second, second_interval) = map(_bits, (baseline, other))
    alone, simultaneous = (
        recovered_difference((first, second), (first_interval, second_interval), level)
        for level in (LEVEL, simultaneous_level)
    )
    return _Row(FigureKey("bits"), first, second, alone, simultaneous)


def _bits(audit: FinishedAudit) -> tuple[float, Interval]:
    bits = audit.bits
    assert bits is not None, "the spec has bits where every audit has"
    assert bits.value is not None and bits.these_low is not None and bits.these_high is not None
    return bits.value, Interval(bits.these_low, bits.these_high, LEVEL, "")
