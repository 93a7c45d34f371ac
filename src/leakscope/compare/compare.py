"""Did the defence help, and what did it cost? Audits of the same records beside the first of them.

    comparison = compare(["runs/plain", "runs/dropout"], out="runs/compare")

Leakage decides: a run is a regression when a leakage figure over all records is higher than the baseline's
beyond an interval that allows for all of the figures at once (Bonferroni over attacks, figures and runs).
Accuracy on records the models did not see is the cost; it is reported and decides nothing. Groups and
single records are for looking: their intervals are 95% each, single records at a false-discovery rate of 5%.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.bank.identity import differences
from leakscope.bank.run_folder import RESULTS, as_corrupt_run_error, locked_run_folder, to_jsonable
from leakscope.compare.figures import Asked, Key, OneModel, Population, one_model_of, population_of
from leakscope.compare.records import changed_records, write_changes
from leakscope.compare.runs import (
    Run,
    about,
    common_columns,
    common_questions,
    last_bits,
    left_out,
    opened_runs,
)
from leakscope.compare.words import outcome_of, sentences
from leakscope.disk.storage import write_json
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.stats.differences import Difference, recovered_difference
from leakscope.stats.intervals import Interval

KIND = "compare"
LEVEL = 0.95
BITS = Key("bits")


@dataclass(frozen=True)
class Comparison:
    """What comparing found.

    Attributes:
        results: the content of results.json.
        folder: the run folder.
    """

    results: dict[str, Any]
    folder: Path

    @property
    def is_regression(self) -> bool:
        """True when some run leaks more than the baseline, beyond the interval."""
        return bool(self.results["regression"])

    def words(self) -> list[str]:
        """The answer in plain sentences, run by run."""
        return [line for found in self.results["comparisons"] for line in found["sentences"]]


def compare(runs: Sequence[Path | str], out: Path | str) -> Comparison:
    """Compares audits with the first of them; writes results.json, records.parquet and reports.

    Args:
        runs: run folders of audits, the baseline first; at least two.
        out: folder of the comparison; the folder of another run is refused.

    Raises:
        InputError: the runs cannot be compared; the message says in what they differ.
    """
    from leakscope.compare.report import write_report

    folder, given = Path(out), [Path(run) for run in runs]
    with as_corrupt_run_error(*given):
        opened = opened_runs(given)
        asked = common_questions(opened)
    # Relative to the comparison: both may move together.
    config = {"runs": [Path(os.path.relpath(run.folder, folder)).as_posix() for run in opened]}
    with locked_run_folder(folder, KIND, config):
        with as_corrupt_run_error(*given):
            results = _judged(opened, asked, config)
        write_json(folder / RESULTS, results)
        write_changes(folder, opened[0].folder, {run.name: run.folder for run in opened[1:]})
        write_report(results, folder)
    return Comparison(results, folder)


def recompute(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The results again, from the runs' banks; what `leakscope verify` compares."""
    opened = opened_runs([folder / run for run in config["runs"]])
    return _judged(opened, common_questions(opened), config)


def _judged(runs: list[Run], asked: Asked, config: dict[str, Any]) -> dict[str, Any]:
    found = [_measured(run, asked, runs) for run in runs]
    n_figures = (len(runs) - 1) * (len(asked.leakage_keys()) + int(_has_bits(runs)))
    each = 1 - (1 - LEVEL) / n_figures
    comparisons = [
        _compared(runs[0], run, found[0], figures, asked, each, _has_bits(runs))
        for run, figures in zip(runs[1:], found[1:], strict=True)
    ]
    results: dict[str, Any] = to_jsonable({
        "experiment": "compare",
        "config": config,
        "intervals": {
            "level": LEVEL,
            "simultaneous_level": each,
            "leakage_figures": n_figures,
            "adjusted": "Bonferroni over all leakage figures of all runs; accuracy, groups and single "
            "records are not part of it",
        },
        "runs": [about(run) for run in runs],
        "strongest_attack": asked.grouped_attack,
        "left_out": left_out(runs, asked),
        "comparisons": comparisons,
        "regression": any(c["outcome"] in ("worse", "mixed") for c in comparisons),
    })  # fmt: skip
    return results


def _measured(run: Run, asked: Asked, runs: list[Run]) -> Population | OneModel:
    signals, design = run.bank.signals(), run.bank.design()
    facts = RecordMetadata.read(run.folder)
    columns = common_columns(runs)
    known = {"label": facts.labels, **facts.groups}
    groups = {name: known[name] for name in columns}
    if run.is_of_one_model:
        return one_model_of(signals, design, asked, groups, int(run.results["config"]["targets"][0]))
    # Where designs are equal, models are compared in pairs: one that diverged in any run counts in none.
    lost = {m for other in runs if other.design_sha256 == run.design_sha256 for m in other.bank.diverged}
    models = np.setdiff1d(np.arange(design.n_models), sorted(lost | set(run.bank.diverged)))
    return population_of(signals, design, asked, groups, models)


def _compared(
    baseline: Run,
    other: Run,
    first: Population | OneModel,
    second: Population | OneModel,
    asked: Asked,
    each: float,
    with_bits: bool,
) -> dict[str, Any]:
    is_paired = baseline.design_sha256 == other.design_sha256
    alone, together = (_all_differences(first, second, is_paired, level) for level in (LEVEL, each))
    pairs = list(zip(first.keys, first.values(), second.values(), alone, together, strict=True))
    rows = [_row(*pair) for pair in pairs]
    leakage, n_accuracy = rows[: len(asked.leakage_keys())], len(asked.accuracy_keys())
    if with_bits:
        leakage.append(_bits_row(baseline, other, each))
    accuracy = {
        row["measure"].removeprefix("accuracy_"): _without_verdict(row)
        for row in rows[len(asked.leakage_keys()) :][:n_accuracy]
    }
    groups: dict[str, list[dict[str, Any]]] = {}
    for pair in pairs[len(asked.leakage_keys()) + n_accuracy :]:
        groups.setdefault(str(pair[0].column), []).append(
            {"group": pair[0].group, **_without_verdict(_row(*pair))}
        )
    found = {
        "run": other.name,
        "differs": differences(
            baseline.results["population"]["recipe"], other.results["population"]["recipe"], here="here"
        ),
        "is_paired": is_paired or baseline.is_of_one_model,
        "leakage": leakage,
        "accuracy": accuracy or None,
        "records": changed_records(baseline.folder, other.folder) if asked.with_records else None,
        "groups": groups,
        "outcome": outcome_of(leakage),
    }
    words = sentences(to_jsonable(found), about(baseline), about(other), asked.grouped_attack)
    return {**found, "sentences": words}


def _all_differences(
    first: Population | OneModel, second: Population | OneModel, is_paired: bool, level: float
) -> tuple[Difference, ...]:
    if isinstance(first, Population):
        assert isinstance(second, Population), "checked before"
        return first.differences(second, is_paired, level)
    assert isinstance(second, OneModel), "checked before"
    return first.differences(second, is_paired, level)


def _row(key: Key, first: float, second: float, alone: Difference, together: Difference) -> dict[str, Any]:
    """One figure of results.json."""
    ends = together.interval
    outcome = "higher" if ends.low > 0 else "lower" if ends.high < 0 else "unresolved"
    return {
        "measure": key.measure,
        "attack": key.attack,
        "fpr": key.fpr,
        "baseline": first,
        "other": second,
        "difference": alone.value,
        "low": alone.interval.low,
        "high": alone.interval.high,
        "simultaneous_low": ends.low,
        "simultaneous_high": ends.high,
        "outcome": outcome,
        "method": alone.interval.method,
    }


def _without_verdict(row: dict[str, Any]) -> dict[str, Any]:
    """A figure that decides nothing: value and plain interval."""
    return {k: row[k] for k in ("baseline", "other", "difference", "low", "high", "method")}


def _has_bits(runs: list[Run]) -> bool:
    """False for one given model too: its run's bits are mostly those of the references."""
    return all(last_bits(run) is not None and not run.is_of_one_model for run in runs)


def _bits_row(baseline: Run, other: Run, each: float) -> dict[str, Any]:
    found = [last_bits(run) for run in (baseline, other)]
    first, second = (bits for bits in found if bits is not None)
    values = first["value"], second["value"]
    ends = tuple(Interval(bits["low"], bits["high"], LEVEL, "") for bits in (first, second))
    alone, together = (recovered_difference(values, (ends[0], ends[1]), level) for level in (LEVEL, each))
    return _row(BITS, *values, alone, together)
