"""Pages of a given model, solved for numbers of members: who is left over when the groups are subtracted?

One record is in a group of its own, which no page shows. The reader wants to know whether it is a member.
Each attack runs on the page with membership, whose figures are exact and where it must succeed, and on the
pages that must withstand it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from leakscope.array_types import BoolArray
from leakscope.audits.given import GivenTarget
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.report.pipeline import audit_junit, job_summary
from leakscope.audits.run import audit
from leakscope.compare.compare import compare
from leakscope.data.predictions import Predictions
from leakscope.disclosure import Disclosure
from leakscope.evaluate.gate import Gate
from leakscope.integrations.model_card import model_card
from leakscope.integrations.tracked_run import tracked_run
from leakscope.models.given import PredictFunction
from leakscope.recipe import EstimatorRecipe
from leakscope.report.page import MARKDOWN, PAGE, REDACTED_PAGE
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.run import open_run
from leakscope.types import Records
from tests.quick_audits import quick_audits
from tests.report import count_attacks as reader
from tests.report.page_attacks import arrays, traces

SEEDS = [pytest.param(range(3), id="3 seeds"), pytest.param(range(20), id="20", marks=pytest.mark.slow)]
N_RECORDS = 400
SIZES = {"North": 200, "South": 199}
GROUPS = np.array(["Solo", *(["North", "South"] * N_RECORDS)[: N_RECORDS - 1]])


@pytest.fixture(autouse=True, scope="module")
def only_quick_audits() -> Iterator[None]:
    with quick_audits():
        yield


def outputs(seed: int) -> Predictions:
    """What a model that leaks a little says about 400 records; the first is alone in its group."""
    rng = np.random.default_rng(seed)
    is_member = rng.random(N_RECORDS) < 0.5
    labels = rng.integers(0, 2, N_RECORDS)
    log_odds = 1.2 + rng.normal(0, 1.5, N_RECORDS) + 0.6 * is_member
    signed = np.where(labels == 1, log_odds, -log_odds)
    logits = np.stack([-signed / 2, signed / 2], axis=1).astype(np.float32)
    ids = np.array([f"r{i}" for i in range(N_RECORDS)])
    return Predictions(logits, labels, ids, is_member, {"region": GROUPS})


def audited(predictions: Predictions, folder: Path) -> dict[str, str]:
    """Every page of the audit: with membership, by default and redacted."""
    gate = Gate(preset="release", max_advantage=0.1, max_epsilon=1)
    audit(SavedPredictions(predictions), out=folder, attacks=("correctness", "loss"), gate=gate)
    disclosures = {"default": Disclosure(), "exact": Disclosure(with_membership=True)}
    pages = {name: rebuild_report(folder, one).read_text() for name, one in disclosures.items()}
    return {**pages, "redacted": rebuild_report(folder, Disclosure(redacted=True)).read_text()}


def members_of_groups(page: str) -> dict[str, list[int]]:
    """How many members each group may have."""
    aucs = reader.group_aucs(page, SIZES)
    within = reader.tolerance(aucs.values())
    return {name: reader.members_of_group(auc, SIZES[name], within) for name, auc in aucs.items()}


def by_difference(page: str, n_correct: int) -> set[int]:
    """Members among the records outside the groups, by the number stated and the AUCs."""
    return reader.members_outside(
        reader.members_as_stated(page, N_RECORDS), members_of_groups(page), n_outside=1
    )


def by_every_rate(page: str, n_correct: int) -> set[int]:
    """The same, with the number of members solved for from every rate on the page."""
    total = reader.members_by_rates(page, N_RECORDS, n_correct)
    return reader.members_outside(total, members_of_groups(page), n_outside=1)


def n_right_of(predictions: Predictions) -> int:
    return int((predictions.logits.argmax(axis=1) == predictions.labels).sum())


def n_members_of(predictions: Predictions) -> int:
    assert predictions.is_member is not None
    return int(predictions.is_member.sum())


@pytest.mark.parametrize("seeds", SEEDS)
def test_nobody_subtracts_groups_from_all_records(tmp_path: Path, seeds: range) -> None:
    n_solved = {(attack.__name__, page): 0 for attack in (by_difference, by_every_rate) for page in
                ("exact", "default", "redacted")}  # fmt: skip
    for seed in seeds:
        predictions = outputs(seed)
        assert predictions.is_member is not None
        for name, page in audited(predictions, tmp_path / str(seed)).items():
            for attack in (by_difference, by_every_rate):
                left = attack(page, n_right_of(predictions))
                n_solved[attack.__name__, name] += left == {int(predictions.is_member[0])}
                assert name == "exact" or left == {0, 1}, (attack.__name__, name, seed)
    works = [n for (_, page), n in n_solved.items() if page == "exact"]
    assert min(works) >= 0.7 * len(seeds) - 1, (n_solved, "the attacks work where figures are exact")
    assert all(n == 0 for (_, page), n in n_solved.items() if page != "exact"), n_solved


def test_pages_leave_the_numbers_of_members_open(tmp_path: Path) -> None:
    predictions = outputs(0)
    pages = audited(predictions, tmp_path)
    n_members, n_correct = n_members_of(predictions), n_right_of(predictions)
    assert reader.members_by_rates(pages["exact"], N_RECORDS, n_correct) == [n_members]
    for name in ("default", "redacted"):
        assert len(reader.members_by_rates(pages[name], N_RECORDS, n_correct)) > 25, name
        for group, possible in members_of_groups(pages[name]).items():
            assert set(range(30, SIZES[group] - 30)) <= set(possible), (name, group)


def what_is_shared(folder: Path) -> dict[str, str]:
    """Everything about the audit that others may see, by name."""
    for redacted in (False, True):
        rebuild_report(folder, Disclosure(redacted=redacted))
    verdict = open_run(folder).verdict
    sent = tracked_run(verdict)
    return {
        "page": (folder / PAGE).read_text(),
        "redacted": (folder / REDACTED_PAGE).read_text(),
        "markdown": (folder / MARKDOWN).read_text(),
        "junit": audit_junit(verdict.results).decode(),
        "summary": job_summary(verdict.results),
        "tracker": f"{sent.metrics} {sent.params} {sent.tags}",
        "card": "" if verdict.rating == "inconclusive" else model_card(verdict, "model"),
    }


def test_nothing_that_is_shared_has_the_exact_number_of_members(tmp_path: Path) -> None:
    """Neither the pages and what is beside them, nor what pipelines, trackers and model cards are sent."""
    predictions = outputs(1)
    n_members = n_members_of(predictions)
    audited(predictions, tmp_path)
    for name, text in what_is_shared(tmp_path).items():
        for number in (n_members, N_RECORDS - n_members):
            assert not reader.states(text, number), (name, number)
        assert not [one for one in reader.fine_numbers(text) if 0.02 < one < 0.98], name


def with_references(predictions: Predictions, is_member: BoolArray) -> GivenTarget:
    """A model of these outputs, and references that are trained on them."""
    records = Records(predictions.logits, predictions.labels, predictions.ids, class_names=("0", "1"))
    model = PredictFunction(lambda features: features)
    return GivenTarget(records, model, is_member, EstimatorRecipe(KNeighborsClassifier(5)))


@pytest.mark.parametrize(("models", "design"), [(1, "balanced"), (16, "bernoulli"), (200, "balanced")])
def test_references_do_not_count_the_members(tmp_path: Path, models: int, design: str) -> None:
    """The page says which records each of them was trained on, so their number must not be the target's."""
    shown = []
    for n_members in (185, 186, 190):
        is_member = np.arange(N_RECORDS) < n_members
        out = tmp_path / str(n_members)
        audit(with_references(outputs(0), is_member), out=out, models=models, design=design, attacks=["loss"])
        shown.append(of_references((out / PAGE).read_text()))
    assert len(set(shown)) == 1, "a reader cannot tell these member lists apart"


def of_references(page: str) -> bytes:
    """What the page holds about references: who each was trained on, its outputs, what they reveal."""
    embedded = arrays(page)
    assert {"in_mask", "outputs"} <= set(embedded)
    return b"".join(np.asarray(embedded[name]).tobytes() for name in ("in_mask", "outputs"))


def test_facts_about_a_given_model_round_the_number_of_members(tmp_path: Path) -> None:
    predictions = outputs(1)
    given = with_references(predictions, np.asarray(predictions.is_member))
    audit(given, out=tmp_path, models=4, attacks=("correctness", "loss"))
    for name, text in what_is_shared(tmp_path).items():
        assert not reader.states(text, n_members_of(predictions)), name


def with_patients(predictions: Predictions) -> Predictions:
    """The same rows, two of each patient, who is a member with both or with none."""
    is_member = np.asarray(predictions.is_member)
    patients = np.empty(N_RECORDS, dtype="U8")
    order = np.argsort(is_member, kind="stable")
    patients[order] = [f"p{side:d}{row // 2}" for row, side in enumerate(is_member[order])]
    return replace(predictions, repeated={"patient": patients})


def test_facts_about_units_do_not_count_the_rows_of_members(tmp_path: Path) -> None:
    """A patient is a member with all rows: the number of these is as secret as that of the patients."""
    predictions = with_patients(outputs(1))
    audit(SavedPredictions(predictions), out=tmp_path, unit="patient", attacks=("correctness", "loss"))
    for name, text in what_is_shared(tmp_path).items():
        assert not reader.states(text, n_members_of(predictions)), name


def test_nothing_that_is_shared_says_that_rows_are_members_together(tmp_path: Path) -> None:
    """Whoever knows that one row of a patient is a member would know it of the others."""
    source = SavedPredictions(with_patients(outputs(1)))
    assert len(source.warnings(None)) == 1, "who runs the audit is told"
    audit(source, out=tmp_path, attacks=("correctness", "loss"))
    for name, text in what_is_shared(tmp_path).items():
        assert "belong together" not in text, name


def test_a_group_of_one_side_hides_its_column(tmp_path: Path) -> None:
    """That such a group alone has no figures would say that its records are all members, or none is."""
    predictions = outputs(2)
    assert predictions.is_member is not None
    wards = np.array(["A", "B", "C", "D"])[np.arange(N_RECORDS) % 4]
    is_member: BoolArray = predictions.is_member | (wards == "B")
    one_sided = replace(predictions, is_member=is_member, groups={"ward": wards, "region": GROUPS})
    pages = audited(one_sided, tmp_path)
    assert "By ward" in pages["exact"]
    for name in ("default", "redacted"):
        assert "By ward" not in pages[name] and "By region" in pages[name]
        assert "Not evaluated by ward: figures of its groups would say who is a member." in pages[name]


def test_a_comparison_of_given_models_has_rounded_figures(tmp_path: Path) -> None:
    for seed in (0, 1):
        one = replace(outputs(0), logits=outputs(0).logits * (1 + seed))
        audit(SavedPredictions(one), out=tmp_path / str(seed), attacks=("correctness", "loss"))
    compare([tmp_path / "0", tmp_path / "1"], tmp_path / "both")
    page = (tmp_path / "both" / PAGE).read_text()
    numbers = [abs(x) for trace in traces(page) for x in trace["x"] if isinstance(x, float)]
    assert reader.tolerance(numbers) >= 0.005
