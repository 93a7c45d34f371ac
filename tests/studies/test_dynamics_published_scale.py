"""What may settle a claim: runs of the published scale, and measurements outside of the study."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.data.registry import load
from leakscope.dynamics.complexity import nearest_neighbor_error
from leakscope.dynamics.noise_floor import Floor
from leakscope.hardness.over_training import EarlyCorrelations
from leakscope.studies.claims import Outcome, Settled
from leakscope.studies.dynamics.claims import PUBLICATION, settle
from leakscope.studies.dynamics.measured_elsewhere import (
    TREATED,
    TREATED_PAGE,
    Difference,
    Spacing,
    Treatment,
    finer,
    treated_early,
)
from leakscope.studies.dynamics.published_claims import CLAIMS
from leakscope.studies.dynamics.published_runs import RUNS_OF_CLAIM
from leakscope.studies.dynamics.report import sentences
from leakscope.studies.dynamics.results import DynamicsResults, RunResults
from leakscope.studies.dynamics.trained_banks import training_command
from tests.published_data import root_with
from tests.studies.test_dynamics_claims import RESULTS, number, tenth

NEGATIVE = (Outcome.NOT_REPRODUCED, Outcome.REFUTED)
WITHOUT_LENGTH = {
    "entropy_factor", "epistemic_everywhere", "gradient_norms", "influence", "more_models",
    "finer_checkpoints",
    "variation", "complexity", "three_estimators", "intervention", "other_domains",
}  # fmt: skip


@pytest.fixture(scope="module")
def committed() -> list[DynamicsResults]:
    return PUBLICATION._read(RESULTS)


def settled(results: list[DynamicsResults]) -> dict[str, Settled]:
    return {entry.claim.key: entry for entry in settle(results)}


def each_run(results: list[DynamicsResults], change: Any) -> list[DynamicsResults]:
    """The results with every run changed."""
    return [replace(one, runs={name: change(run) for name, run in one.runs.items()}) for one in results]


def baseline_of(results: list[DynamicsResults]) -> RunResults:
    return next(
        run for one in results for run in one.runs.values() if run.setting.bank == "cifar10-wrn28-2-adamw"
    )


def test_every_claim_names_its_published_run_or_none() -> None:
    assert not WITHOUT_LENGTH & RUNS_OF_CLAIM.keys()
    assert WITHOUT_LENGTH | RUNS_OF_CLAIM.keys() == {claim.key for claim in CLAIMS}


def fewer_models(run: RunResults) -> RunResults:
    return replace(run, population=replace(run.population, models=19))


def fewer_records(run: RunResults) -> RunResults:
    return replace(run, population=replace(run.population, records=19_999))


def other_spacing(run: RunResults) -> RunResults:
    return replace(run, epochs=(run.epochs[0] // 2, *run.epochs[1:]))


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        (fewer_models, "19 of 20 models"),
        (fewer_records, "19,999 of 20,000 records"),
        (other_spacing, "checkpoints every 15 instead of every 10 epochs"),
    ],
)
def test_a_smaller_run_decides_no_claim_about_the_published_scale(
    committed: list[DynamicsResults], change: Any, lacks: str
) -> None:
    entries = settled(each_run(committed, change))
    for key in RUNS_OF_CLAIM:
        assert entries[key].outcome is Outcome.NOT_TESTABLE, key
    assert lacks in entries["markov"].why
    assert not [key for key, e in entries.items() if e.outcome in NEGATIVE and key != "entropy_factor"]


def test_a_run_a_tenth_as_long_denies_nothing(committed: list[DynamicsResults]) -> None:
    entries = settled([tenth(one) for one in committed])
    denied = {key for key, entry in entries.items() if entry.outcome in NEGATIVE}
    assert denied == {"entropy_factor"}  # the publication's own values contradict it
    assert "40 of 400 epochs" in entries["markov"].why
    assert "16 of 160 epochs" in entries["sam_ratio"].why
    assert "40 of 400 epochs" in entries["early_now"].why  # and not: no checkpoint at epoch 150
    assert entries["markov"].ours  # the figure is shown all the same


def test_runs_at_the_published_scale_decide(committed: list[DynamicsResults]) -> None:
    entries = settled(committed)
    expected = {
        "early_now": Outcome.REPRODUCED,
        "peak_entry_ratio": Outcome.NOISE,
        "markov": Outcome.REFUTED,
        "entropy_wrn": Outcome.NOT_REPRODUCED,
        "sam_ratio": Outcome.NOT_REPRODUCED,
        "sam_not_slower": Outcome.NOT_REPRODUCED,  # by the mean advantage, SGD and SAM overlap
        "fewest_models": Outcome.SAME_DIRECTION,
        "gradient_norms": Outcome.NOT_TESTABLE,
        "complexity": Outcome.SAME_DIRECTION,
    }
    assert {key: entries[key].outcome for key in expected} == expected


def test_every_reading_of_a_peak_entry_names_its_own_floor(committed: list[DynamicsResults]) -> None:
    """The published 13% agrees with the share of all records, so its floor is the one that counts."""
    why = settled(committed)["peak_entry_cifar"].why
    assert "of all records, chance alone gives 52% of it" in why
    assert "of those outside, chance alone gives 48% of it" in why


def test_low_transitions_are_judged_by_transitions(committed: list[DynamicsResults]) -> None:
    ours = settled(committed)["mnist_low"].ours
    assert re.search(r"peak entry of those outside 5\.2% .*noise floor 6\.0%", ours)
    high = number(0.3, 0.003, 0.05)
    many = each_run(committed, lambda r: replace(r, figures=replace(r.figures, peak_entry=high)))
    assert settled(many)["mnist_low"].outcome is Outcome.NOT_REPRODUCED


def test_both_readings_of_a_variation_judge_the_number_of_models(committed: list[DynamicsResults]) -> None:
    """`variation` says that the publication does not say of which; then a claim that rests on it cannot."""
    entries = settled(committed)
    assert entries["fewest_models"].outcome is entries["variation"].outcome

    def unsteady(run: RunResults) -> RunResults:
        return replace(run, advantage=replace(run.advantage, coefficient=0.5))

    assert settled(each_run(committed, unsteady))["fewest_models"].outcome is Outcome.REFUTED


def test_a_ratio_of_peak_entries_has_both_readings(committed: list[DynamicsResults]) -> None:
    ours = settled(committed)["peak_entry_ratio"].ours
    assert re.search(r"of those outside 3\.02 .* from 15\.6% .* and 5\.2%", ours)
    assert re.search(r"of all records 2\.73 .* from 13\.3% .* and 4\.9%", ours)


@pytest.mark.parametrize(
    ("rises_at", "to", "expected"),
    [(150, 0.916, "reproduced"), (150, 0.8, "same direction"), (160, 0.916, "refuted")],
)
def test_early_uncertainty_is_judged_at_the_published_epoch(
    committed: list[DynamicsResults], rises_at: int, to: float, expected: str
) -> None:
    run = baseline_of(committed)
    r = tuple(to if epoch >= rises_at else -0.3 for epoch in run.epochs)
    early = {"epistemic": EarlyCorrelations(r, r, r, r, 20_000)}
    own = replace(committed[0], runs={"own": replace(run, early_hardness=early)})
    entry = settled([own])["epistemic_early"]
    assert entry.outcome == expected
    assert "judged at epoch 150 of 400" in entry.why
    assert "epoch 40: -0.30" in entry.ours  # a tenth of training, beside it


def test_the_weaker_measure_is_named_with_the_runs_that_know_the_full_one(
    committed: list[DynamicsResults],
) -> None:
    entry = settled(committed)["epistemic_early"]
    assert "only the weaker measure is known, epistemic uncertainty (own class)" in entry.why
    for name in ("cifar10-wide_resnet-sgd at epoch 60 of 160", "cifar10-cnn-adamw at epoch 150 of 400"):
        assert name in entry.ours


def test_complexity_needs_the_baseline_on_both_datasets(committed: list[DynamicsResults]) -> None:
    """Equal entries refute no scale of two datasets, but they do not reproduce one."""
    equal = number(0.15, 0.003, 0.05)
    same = each_run(committed, lambda r: replace(r, figures=replace(r.figures, peak_entry=equal)))
    assert settled(same)["complexity"].outcome is Outcome.NOT_REPRODUCED
    (small,) = [one for one in committed if len(one.runs) == 3]
    assert settled([small])["complexity"].outcome is Outcome.NOT_TESTABLE


def test_the_complexity_of_a_dataset_comes_from_any_run_of_it(committed: list[DynamicsResults]) -> None:
    """The long runs do not know it; the small ones do."""

    def forget(run: RunResults) -> RunResults:
        return replace(run, complexity=None) if run.population.records == 20_000 else run

    entry = settled(each_run(committed, forget))["complexity"]
    assert entry.outcome is Outcome.SAME_DIRECTION
    assert "mnist 11.8% and 5.2%" in entry.ours


@pytest.mark.slow
def test_committed_complexities_are_those_of_the_records(committed: list[DynamicsResults]) -> None:
    runs = [run for one in committed for run in one.runs.values()]
    stated = {_of(run): run.complexity for run in runs}
    assert len({(_of(run), run.complexity) for run in runs}) == len(stated)
    for (dataset, n), complexity in stated.items():
        records = load(dataset, root_with(dataset))
        assert complexity == nearest_neighbor_error(records.take(np.arange(n))), dataset


def _of(run: RunResults) -> tuple[str, int]:
    return run.setting.dataset, run.population.records


def test_more_models_vary_less(committed: list[DynamicsResults]) -> None:
    assert settled(committed)["more_models"].outcome is Outcome.REPRODUCED

    def same_floor(run: RunResults) -> RunResults:
        floor = tuple(0.1 for _ in run.epochs)
        vulnerable = replace(run.figures.vulnerable, floor=Floor(floor, floor, floor))
        return replace(run, figures=replace(run.figures, vulnerable=vulnerable))

    assert settled(each_run(committed, same_floor))["more_models"].outcome is Outcome.NOT_REPRODUCED


def test_the_treatment_is_quoted_as_its_page_prints_it() -> None:
    lines = (RESULTS.parents[2] / TREATED_PAGE).read_text().splitlines()
    starts = [k for k, line in enumerate(lines) if line == "All records, difference from undefended models:"]
    rows = [next(line for line in lines[k:] if line.startswith("| early, leave out |")) for k in starts[:2]]
    for one, row in zip(reversed(TREATED), rows, strict=True):
        cells = [cell.strip().replace("**", "").replace("−", "-") for cell in row.split("|")]
        assert [cells[2], cells[4], cells[8]] == [one.auc.text(3), one.tpr.text(1), one.accuracy.text(1)]


@pytest.mark.parametrize(
    ("auc", "accuracy", "expected"),
    [(-0.03, 0.4, Outcome.REPRODUCED), (0.0, 0.4, Outcome.NOT_REPRODUCED),
     (-0.03, -1.4, Outcome.NOT_REPRODUCED)],
)  # fmt: skip
def test_a_treatment_has_to_protect_at_no_cost(auc: float, accuracy: float, expected: Outcome) -> None:
    one = Treatment("a", Difference(auc, 0.01), Difference(-2.0, 0.5), Difference(accuracy, 0.3))
    assert treated_early(CLAIMS[0], (one,)).outcome is expected


def test_every_bank_of_the_page_says_how_it_was_trained(committed: list[DynamicsResults]) -> None:
    banks = {one.config.settings[0].bank for one in committed} - {""}
    page = Path(f"{RESULTS}.md").read_text()
    for bank in banks:
        assert training_command(bank).startswith("# trained by python benchmarks/dynamics_bank.py --preset ")
        assert f"{training_command(bank)}\nleakscope study dynamics --bank {bank} " in page
    assert training_command("") == training_command("my.npz") == ""


@pytest.mark.parametrize(
    ("seen", "by_chance", "expected"),
    [
        ((0.8, 0.5), (0.3, 0.2), Outcome.REPRODUCED),
        ((0.8, 0.5), (0.7, 0.3), Outcome.NOISE),
        ((0.5, 0.5), (0.3, 0.3), Outcome.NOT_REPRODUCED),
    ],
)
def test_finer_checkpoints_have_to_add_more_than_chance(
    seen: tuple[float, float], by_chance: tuple[float, float], expected: Outcome
) -> None:
    spacings = tuple(Spacing(every, *ends) for every, *ends in zip((10, 40), seen, by_chance, strict=True))
    assert finer(CLAIMS[0], spacings).outcome is expected


@pytest.mark.parametrize(
    ("sgd", "sam", "expected"),
    [
        (0.85, 0.86, Outcome.REPRODUCED),
        (0.86, 0.85, Outcome.REFUTED),
        (0.85, 0.85, Outcome.NOT_REPRODUCED),
    ],
)
def test_sam_generalizes_where_every_population_does(
    committed: list[DynamicsResults], sgd: float, sam: float, expected: Outcome
) -> None:
    accuracies = {"sgd": sgd, "sam": sam}

    def change(run: RunResults) -> RunResults:
        if run.setting.epochs != 160:
            return run
        ends = (*run.accuracy.nonmembers[:-1], accuracies[run.setting.optimizer])
        return replace(run, accuracy=replace(run.accuracy, nonmembers=ends))

    assert settled(each_run(committed, change))["sam_generalizes"].outcome is expected
    alone = [
        one
        for one in each_run(committed, change)
        if all(r.population.models == 20 for r in one.runs.values())
    ]
    if expected is Outcome.REPRODUCED:  # one population of SAM is not enough
        assert settled(alone)["sam_generalizes"].outcome is Outcome.SAME_DIRECTION


def test_influence_functions_of_small_runs_settle_nothing(committed: list[DynamicsResults]) -> None:
    entry = settled(committed)["influence"]
    assert entry.outcome is Outcome.NOT_TESTABLE and "TracIn" in entry.ours and "GraNd" not in entry.ours
    assert "TracIn" not in settled(committed)["gradient_norms"].ours
    assert "not influence functions" in settled(committed)["hardness_strong"].why


def test_that_all_are_there_at_the_end_is_no_finding(committed: list[DynamicsResults]) -> None:
    """70% of the finally vulnerable by the last checkpoint is a definition, so the report does not say it."""
    baseline = baseline_of(committed)
    first = baseline.figures.first_epoch
    said = " ".join(sentences(baseline))
    assert f"by epoch 160 of 400; under permuted memberships, by epoch {first.floor.mean:.0f}." in said
    last = replace(baseline, figures=replace(baseline.figures, first_epoch=replace(first, value=400.0)))
    said = " ".join(sentences(last))
    assert "of 400;" not in said and "Fewer than 70% of them were there at any earlier checkpoint." in said


@pytest.mark.parametrize(
    ("outside", "of_all", "expected"),
    [
        (0.5, 0.5, Outcome.REPRODUCED),
        (0.1, 0.5, Outcome.SAME_DIRECTION),
        (0.5, 0.1, Outcome.SAME_DIRECTION),
        (0.1, 0.1, Outcome.NOT_REPRODUCED),
    ],
)
def test_a_phase_is_judged_by_both_readings_of_an_entry(
    committed: list[DynamicsResults], outside: float, of_all: float, expected: Outcome
) -> None:
    """Entries of 0.1 at all checkpoints but one, without a floor."""

    def change(run: RunResults) -> RunResults:
        if run.setting.bank != "cifar10-wrn28-2-adamw":
            return run
        changed = {}
        for name, peak in (("entry", outside), ("entry_of_all", of_all)):
            figure = getattr(run.figures, name)
            n = len(figure.value)
            floor = replace(figure.floor, mean=(0.0,) * n)
            changed[name] = replace(figure, value=(peak, *(0.1,) * (n - 1)), floor=floor)
        return replace(run, figures=replace(run.figures, **changed))

    assert settled(each_run(committed, change))["phases"].outcome is expected


def test_a_displacement_without_a_unit_has_no_direction(committed: list[DynamicsResults]) -> None:
    entries = settled(committed)
    for key in ("com_wrn", "com_cnn"):
        assert entries[key].outcome is Outcome.NOT_TESTABLE and "no unit" in entries[key].why
    assert entries["com_nets"].outcome is Outcome.REPRODUCED  # a ratio has no unit

    def change(run: RunResults) -> RunResults:
        moved = number(114.2, 1.0, 3.0)
        return replace(run, figures=replace(run.figures, net_displacement=moved))

    assert settled(each_run(committed, change))["com_wrn"].outcome is Outcome.REPRODUCED
