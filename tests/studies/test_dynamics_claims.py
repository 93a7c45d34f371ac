"""Verdicts of the dynamics study follow from numbers: made-up results settle claims either way."""

from __future__ import annotations

import math
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from leakscope.bank.results import parse_results
from leakscope.bank.run_folder import read_json
from leakscope.dynamics.noise_floor import Floor
from leakscope.hardness.correlations import CorrelationFigure, HardnessFigures
from leakscope.studies.claims import Outcome, Settled
from leakscope.studies.dynamics.claims import PUBLICATION, RULES, settle
from leakscope.studies.dynamics.evidence import (
    Evidence,
    Interval,
    PublishedRatio,
    level_outcome,
    ratio_outcome,
    strength_outcome,
)
from leakscope.studies.dynamics.failure_signatures import failure_signatures
from leakscope.studies.dynamics.published_claims import CLAIMS
from leakscope.studies.dynamics.results import DynamicsResults, Figure, RunResults
from tests.cli.command import run_command

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "dynamics"
SGD_FILE = RESULTS / "cifar10-wide_resnet-sgd-160-epochs.json"
BASELINE_FILE = RESULTS / "cifar10-wide_resnet-adamw-400-epochs.json"
NAN = math.nan


@pytest.fixture(scope="module")
def sgd() -> DynamicsResults:
    """Real results to change: WRN-28-2 on CIFAR-10, SGD, 160 epochs."""
    return parse_results(read_json(SGD_FILE), DynamicsResults, SGD_FILE)


@pytest.fixture(scope="module")
def baseline() -> DynamicsResults:
    """Real results to change: the same network with AdamW, 400 epochs."""
    return parse_results(read_json(BASELINE_FILE), DynamicsResults, BASELINE_FILE)


def changed(
    template: DynamicsResults, figures: dict[str, Any] | None = None, **setting: Any
) -> DynamicsResults:
    """The results with other figures, of another setting."""
    (run,) = template.runs.values()
    own = replace(run.setting, **setting)
    changed_run = replace(run, setting=own, figures=replace(run.figures, **(figures or {})))
    return replace(template, runs={own.name: changed_run})


def tenth(results: DynamicsResults) -> DynamicsResults:
    """The same figures of runs a tenth as long."""
    runs = {
        name: replace(
            run,
            setting=replace(run.setting, epochs=run.epochs[-1] // 10, every=1),
            epochs=tuple(range(1, len(run.epochs) + 1)),
        )
        for name, run in results.runs.items()
    }
    return replace(results, runs=runs)


def number(value: float, error: float = 0.01, floor: float = 0.0) -> Figure[float | None]:
    return Figure(value, error, Floor(floor, floor, floor))


def at_each_checkpoint(
    value: float, error: float, floor: float, n: int = 40
) -> Figure[tuple[float | None, ...]]:
    return Figure((value,) * n, (error,) * n, Floor((floor,) * n, (floor,) * n, (floor,) * n))


def verdict(key: str, *results: DynamicsResults) -> Settled:
    (entry,) = (entry for entry in settle(results) if entry.claim.key == key)
    return entry


def test_every_claim_has_a_rule_and_every_rule_a_claim() -> None:
    assert set(RULES) == {claim.key for claim in CLAIMS}


@pytest.mark.parametrize(
    ("recall", "error", "floor", "expected"),
    [
        (0.72, 0.005, 0.10, Outcome.REPRODUCED),
        (0.695, 0.005, 0.10, Outcome.REPRODUCED),  # 70% is inside the interval
        (0.60, 0.005, 0.10, Outcome.NOT_REPRODUCED),
        (0.72, 0.005, 0.715, Outcome.NOISE),
    ],
)
def test_early_exposure(
    baseline: DynamicsResults, recall: float, error: float, floor: float, expected: Outcome
) -> None:
    series = at_each_checkpoint(recall, error, floor)
    entry = verdict("early_now", changed(baseline, {"recall": series}))
    assert entry.outcome is expected
    assert f"{recall:.1%}" in entry.ours
    assert "adamw" in entry.protocol


def test_the_ever_reading_is_judged_by_its_own_figures(baseline: DynamicsResults) -> None:
    figures = {
        "recall": at_each_checkpoint(0.4, 0.01, 0.1),
        "ever_recall": at_each_checkpoint(0.98, 0.01, 0.85),
        "ever_precision": at_each_checkpoint(0.5, 0.01, 0.3),
    }
    results = changed(baseline, figures)
    assert verdict("early_now", results).outcome is Outcome.NOT_REPRODUCED
    entry = verdict("early_ever", results)
    assert entry.outcome is Outcome.NOISE  # permuted memberships pass 70% as well
    assert "precision of that list 50.0%" in entry.ours


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (Interval(0.133, 0.12, 0.145, 0.06, 0.07), Outcome.REPRODUCED),
        (Interval(0.133, 0.132, 0.134, 0.06, 0.07), Outcome.REPRODUCED),  # equal as printed: 13%
        (Interval(0.133, 0.06, 0.2, 0.06, 0.07), Outcome.NOISE),
        (Interval(0.20, 0.19, 0.21, 0.06, 0.07), Outcome.SAME_DIRECTION),
        (Interval(0.08, 0.06, 0.10, 0.06, 0.07), Outcome.NOT_REPRODUCED),
        (Interval(0.20, NAN, NAN), Outcome.SAME_DIRECTION),  # nothing is known of its noise
    ],
)
def test_a_value_beside_13_percent(ours: Interval, expected: Outcome) -> None:
    assert level_outcome(ours, 0.13, 0.01) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Interval(3.0, 2.8, 3.2, 0, 0.1), Interval(1.0, 0.9, 1.1, 0, 0.1), Outcome.REPRODUCED),
        (Interval(2.0, 1.9, 2.1, 0, 0.1), Interval(1.0, 0.9, 1.1, 0, 0.1), Outcome.SAME_DIRECTION),
        (Interval(1.0, 0.8, 1.2, 0, 0.1), Interval(1.0, 0.9, 1.1, 0, 0.1), Outcome.NOT_REPRODUCED),
        (Interval(0.5, 0.45, 0.55, 0, 0.1), Interval(1.0, 0.9, 1.1, 0, 0.1), Outcome.REFUTED),
        (Interval(3.0, 2.8, 3.2, 3, 3.1), Interval(1.0, 0.9, 1.1, 1, 1.1), Outcome.NOISE),
        (Interval(3.0, 2.8, 3.2, 0, 0.1), Interval(1.0, 0.9, 1.1, 1, 1.1), Outcome.NOISE),
        (Interval(3.0, 2.8, 3.2, 3, 3.1), Interval(1.0, 0.9, 1.1, 0, 0.1), Outcome.NOISE),
        (Interval(0.5, 0.45, 0.55, 0, 0.1), Interval(1.0, 0.9, 1.1, 1, 1.1), Outcome.NOT_REPRODUCED),
        (Interval(2.0, 1.9, 2.1, 2, 2.1), Interval(1.0, 0.9, 1.1, 1, 1.1), Outcome.NOT_REPRODUCED),
    ],
)
def test_a_ratio_beside_three(first: Interval, second: Interval, expected: Outcome) -> None:
    assert ratio_outcome(first, second, PublishedRatio(3.0, 1.0, 0.1)) is expected


@pytest.mark.parametrize(
    ("r", "low", "high", "expected"),
    [
        (0.8, 0.78, 0.82, Outcome.REPRODUCED),
        (0.5, 0.48, 0.52, Outcome.SAME_DIRECTION),
        (0.01, -0.02, 0.04, Outcome.NOT_REPRODUCED),
        (-0.35, -0.37, -0.33, Outcome.REFUTED),
    ],
)
def test_a_strong_correlation(r: float, low: float, high: float, expected: Outcome) -> None:
    assert strength_outcome(r, low, high) is expected


@pytest.mark.parametrize(
    ("entry", "floor", "expected"),
    [
        (0.028, 0.005, Outcome.REPRODUCED),
        (0.028, 0.027, Outcome.NOISE),
        (0.16, 0.07, Outcome.NOT_REPRODUCED),  # as measured: six times the published 2.7%
        (0.08, 0.005, Outcome.NOT_REPRODUCED),
    ],
)
def test_a_probability_of_another_size_is_not_reproduced(
    sgd: DynamicsResults, entry: float, floor: float, expected: Outcome
) -> None:
    """Every probability has the sign of every other one."""
    figure = number(entry, 0.002, floor)
    own = changed(sgd, {"peak_entry": figure, "peak_entry_of_all": figure})
    assert verdict("sgd_entry", own).outcome is expected


def test_sam_settles_its_claims_as_soon_as_its_results_are_there(sgd: DynamicsResults) -> None:
    keys = ("sam_entry", "sam_ratio", "sam_not_slower")
    for key in keys:
        alone = verdict(key, sgd)
        assert alone.outcome is Outcome.NOT_TESTABLE
        assert "no results of wide_resnet on cifar10 with sam" in alone.why
    entry = sgd.runs["cifar10-wide_resnet-sgd"].figures.peak_entry.value
    assert entry is not None
    third = {
        "peak_entry": number(entry / 3, 0.003),
        "vulnerable": at_each_checkpoint(0.2, 0.004, 0.07),
    }
    sam = changed(sgd, third, optimizer="sam")
    assert verdict("sam_ratio", sgd, sam).outcome is Outcome.REPRODUCED
    assert verdict("sam_not_slower", sgd, sam).outcome is Outcome.REPRODUCED
    more = changed(sgd, {"peak_entry": number(2 * entry, 0.003)}, optimizer="sam")
    assert verdict("sam_ratio", sgd, more).outcome is Outcome.REFUTED
    higher = {"vulnerable": at_each_checkpoint(0.6, 0.004, 0.07)}
    assert (
        verdict("sam_not_slower", sgd, changed(sgd, higher, optimizer="sam")).outcome
        is Outcome.NOT_REPRODUCED
    )
    higher["advantage"] = at_each_checkpoint(0.6, 0.004, 0.0)  # by both figures
    leaky = changed(sgd, higher, optimizer="sam")
    assert verdict("sam_not_slower", sgd, leaky).outcome is Outcome.REFUTED
    assert "SAM exposes more" in verdict("sam_not_slower", sgd, leaky).why


def test_mnist_settles_its_claims_and_the_ratios(baseline: DynamicsResults) -> None:
    cifar = changed(
        baseline,
        {"peak_entry": number(0.156, 0.006, 0.075), "peak_entry_of_all": number(0.133, 0.006, 0.065)},
    )
    low = {
        "peak_entry": number(0.048, 0.003, 0.02),
        "peak_entry_of_all": number(0.04, 0.003, 0.02),
        "vulnerable": at_each_checkpoint(0.08, 0.01, 0.075),
    }
    mnist = changed(baseline, low, dataset="mnist")
    assert verdict("peak_entry_mnist", cifar).outcome is Outcome.NOT_TESTABLE
    assert verdict("peak_entry_cifar", cifar, mnist).outcome is Outcome.REPRODUCED
    assert "of all records 13.3%" in verdict("peak_entry_cifar", cifar, mnist).ours
    assert verdict("peak_entry_mnist", cifar, mnist).outcome is Outcome.REPRODUCED
    assert verdict("peak_entry_ratio", cifar, mnist).outcome is Outcome.REPRODUCED
    assert verdict("peak_entry_ratio", cifar, mnist).why == ""
    by_chance = changed(mnist, {"peak_entry": number(0.048, 0.003, 0.05)})
    assert "depends on the number of models" in verdict("peak_entry_ratio", cifar, by_chance).why
    assert verdict("mnist_low", cifar, mnist).outcome is Outcome.REPRODUCED


def test_the_longest_run_of_a_setting_decides(baseline: DynamicsResults) -> None:
    full = changed(baseline, {"recall": at_each_checkpoint(0.9, 0.01, 0.1)})
    short = tenth(baseline)
    assert verdict("early_now", short, full).outcome is Outcome.REPRODUCED
    assert verdict("early_now", short).outcome is Outcome.NOT_TESTABLE


def _with_models(results: DynamicsResults, models: int) -> DynamicsResults:
    (run,) = results.runs.values()
    setting, population = replace(run.setting, models=models), replace(run.population, models=models)
    return replace(results, runs={"own": replace(run, setting=setting, population=population)})


def test_populations_of_one_setting_are_averaged_with_what_they_differ_by(baseline: DynamicsResults) -> None:
    first, second = (
        changed(baseline, {"peak_entry": number(value, 0.003, 0.03)}, dataset="mnist", seed=seed)
        for seed, value in ((0, 0.059), (1, 0.044))
    )
    alone, both = verdict("peak_entry_mnist", first), verdict("peak_entry_mnist", first, second)
    assert "of those outside 5.9% (5.3 to 6.5)" in alone.ours
    # A mean of 5.15 with a standard error of 1.06 / sqrt(2), the spread of both values: wider than either.
    assert "of those outside 5.1% (3.7 to 6.6)" in both.ours
    assert both.protocol.startswith("2 populations of 20 models")
    fewer = _with_models(second, 10)  # more noise: another figure
    assert verdict("peak_entry_mnist", first, fewer).ours == alone.ours
    assert verdict("peak_entry_mnist", fewer, first).ours == alone.ours


def test_a_population_without_logits_is_another_one_of_its_setting(sgd: DynamicsResults) -> None:
    banks = ("one", "two", "three")
    runs = [changed(sgd, {}, bank=bank, store_logits=bank != "three", seed=0) for bank in banks]
    labels = [run.label for run in Evidence.of(runs).runs]
    assert len(set(labels)) == 3
    assert labels[2].endswith(", population 3)")


def test_populations_that_agree_have_a_smaller_error_together() -> None:
    both = Interval.of_populations([number(0.05, 0.003), number(0.0501, 0.003)])
    assert both.high - both.value == pytest.approx(1.96 * 0.003 / math.sqrt(2))
    unknown = Interval.of_populations([number(0.05), Figure(0.04, None, Floor(0.0, 0.0, 0.0))])
    assert math.isnan(unknown.high) and unknown.value == pytest.approx(0.045)


def test_the_published_factor_contradicts_the_published_values(sgd: DynamicsResults) -> None:
    entry = verdict("entropy_factor", sgd)
    assert entry.outcome is Outcome.REFUTED
    assert "11.6" in entry.ours


def test_the_command_writes_the_page_and_counts(tmp_path: Path) -> None:
    folder = tmp_path / "dynamics"
    folder.mkdir()
    shutil.copy(SGD_FILE, folder)
    done = run_command("study", "dynamics", "--claims", folder)
    assert done.exit_code == 0, done.err
    assert f"{len(CLAIMS)} claims: " in done.out
    assert (tmp_path / "dynamics.md").read_text() == PUBLICATION.page(folder)
    assert not (tmp_path / "runs").exists()
    (folder / SGD_FILE.name).unlink()
    assert run_command("study", "dynamics", "--claims", folder).exit_code == 2


def flat(r: float) -> HardnessFigures:
    """Hardness whose every correlation is r."""
    figure = CorrelationFigure(r, r - 0.01, r + 0.01, 1000, "")
    return HardnessFigures(*[figure] * len(fields(HardnessFigures)))


def quiet_run(sgd: DynamicsResults, **changes: Any) -> RunResults:
    """A run without any sign of failure, then with changes."""
    (run,) = sgd.runs.values()
    hardness = changes.pop("hardness", {"epistemic": flat(0.6)})
    return replace(run, hardness=hardness, figures=replace(run.figures, **changes))


def test_a_run_that_leaks_has_no_sign_of_failure(sgd: DynamicsResults) -> None:
    assert failure_signatures(quiet_run(sgd)) == []


def test_states_on_the_diagonal_are_named(sgd: DynamicsResults) -> None:
    chance = {
        "advantage": at_each_checkpoint(0.001, 0.01, 0.002),
        "vulnerable": at_each_checkpoint(0.07, 0.01, 0.08),
    }
    (line,) = failure_signatures(quiet_run(sgd, **chance))
    assert line.startswith("No signal")
    leaks = {**chance, "vulnerable": at_each_checkpoint(0.3, 0.01, 0.08)}
    assert failure_signatures(quiet_run(sgd, **leaks)) == []


@pytest.mark.parametrize(
    ("entry", "floor", "is_named"), [(0.004, 0.001, True), (0.07, 0.08, True), (0.1, 0.08, False)]
)
def test_missing_transitions_are_named(
    sgd: DynamicsResults, entry: float, floor: float, is_named: bool
) -> None:
    lines = failure_signatures(quiet_run(sgd, peak_entry=number(entry, 0.01, floor)))
    assert [line.split(":")[0] for line in lines] == (["No transitions"] if is_named else [])


@pytest.mark.parametrize(("r", "is_named"), [(0.05, True), (-0.05, True), (-0.4, False)])
def test_a_missing_correlation_is_named(sgd: DynamicsResults, r: float, is_named: bool) -> None:
    lines = failure_signatures(
        quiet_run(sgd, hardness={"epistemic": flat(r), "loss_trace_spread": flat(0.9)})
    )
    assert [line.split(":")[0] for line in lines] == (["No correlation"] if is_named else [])
    assert failure_signatures(quiet_run(sgd, hardness={"loss_trace_spread": flat(0.0)})) == []
