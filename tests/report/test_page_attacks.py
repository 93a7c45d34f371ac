"""Reports attacked by a reader who has the records in order, the config and black-box access.

Every attack is run twice: on a page where it must succeed, so that it is known to work, and on the page that
must withstand it. docs/redaction.md states the threat model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from leakscope.array_types import BoolArray, FloatArray
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.data.predictions import Predictions
from leakscope.design import make_design
from leakscope.disclosure import Disclosure, keyed_ids
from leakscope.disk.parquet import read_stored
from leakscope.report.page import PAGE, REDACTED_PAGE
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.run import open_run
from tests.quick_audits import quick_audits
from tests.report import page_attacks as reader
from tests.report.html.made_up import made_up_study, setting
from tests.synthetic_runs import Synthetic

SEEDS = [pytest.param(range(1), id="1 seed"), pytest.param(range(20), id="20", marks=pytest.mark.slow)]
N_EXPOSED = 24
POPULATION = Synthetic(n_records=10 * N_EXPOSED, n_models=32, n_checkpoints=1, leak=8.0, attacks=("lira",))
N_RECORDS, N_REFERENCES = 240, 16


@pytest.fixture(autouse=True, scope="module")
def only_quick_audits() -> Iterator[None]:
    with quick_audits():
        yield


def exposed_ids(page: str) -> list[str]:
    """The ids that a redacted page lists, in its order."""
    return re.findall(r"\b[0-9a-f]{12}\b", page.split('<section id="records"')[1].split("</section>")[0])


@pytest.mark.parametrize("seeds", SEEDS)
def test_nobody_recovers_row_numbers_from_a_redacted_audit(tmp_path: Path, seeds: range) -> None:
    n_named = {"in order of the records": 0, "most exposed first": 0}
    n_listed = 0
    for seed in seeds:
        folder = tmp_path / str(seed)
        population = Synthetic(**{**vars(POPULATION), "seed": seed})
        population.audited(folder)
        in_mask = make_design("balanced", population.n_models, population.n_records, seed).in_mask
        private = reader.membership_rows((folder / PAGE).read_text(), in_mask)
        ids = reader.arrays((folder / PAGE).read_text())["id"].tolist()
        assert [f"person-{row:05d}" for row in private] == ids, "the attack works where patterns are shown"

        page = rebuild_report(folder, Disclosure(redacted=True)).read_text()
        records = read_stored(folder / "records.parquet")
        assert len(reader.membership_rows(page, in_mask)) == 0
        for figure in ("advantage", "bits"):  # the reader trained every model again
            assert reader.values_rows(page, records[figure].to_numpy()) == {}
        exposed = records["exposed"].to_numpy().nonzero()[0]
        risk = records["bits"].to_numpy()[exposed]
        truth = keyed_ids(folder, records["id"].to_numpy()[exposed].astype(str))
        listed = exposed_ids(page)
        assert sorted(listed) == sorted(truth.tolist()) and len(listed) >= N_EXPOSED - 4
        n_listed += len(listed)
        n_named["in order of the records"] += int((truth == listed).sum())
        n_named["most exposed first"] += int((truth[np.argsort(-risk)] == listed).sum())
    # A random order puts one record per list in its place on average, whatever the list's length.
    chance = len(seeds) + 4 * len(seeds) ** 0.5
    assert all(n <= chance for n in n_named.values()), (n_named, n_listed)


def test_keyed_ids_withstand_a_dictionary(tmp_path: Path) -> None:
    POPULATION.audited(tmp_path, Disclosure(redacted=True))
    listed = set(exposed_ids((tmp_path / REDACTED_PAGE).read_text()))
    guesses = [text for i in range(POPULATION.n_records) for text in (f"person-{i:05d}", f"{i}", f"0{i}")]
    hashes = {hashlib.new(kind, text.encode()).hexdigest() for kind in ("sha256", "md5") for text in guesses}
    assert len(listed) >= N_EXPOSED - 4 and not listed & {digest[:12] for digest in hashes}
    assert not any(text in (tmp_path / REDACTED_PAGE).read_text() for text in guesses[::3])


def test_few_exposed_records_are_counted_but_not_listed(tmp_path: Path) -> None:
    few = Synthetic(**{**vars(POPULATION), "n_records": 100})
    few.audited(tmp_path, Disclosure(redacted=True))
    page = (tmp_path / REDACTED_PAGE).read_text()
    assert re.search(r"\b\d+ records? \(\d+\.\d%\) (is|are) individually exposed", page)
    assert exposed_ids(page) == []


def test_a_group_of_few_records_has_no_figures_in_a_redacted_audit(tmp_path: Path) -> None:
    towns = np.array(["Paris"] * 60 + ["Oslo"] * 3 + ["Rome"] * 57)
    Synthetic(groups={"town": towns}, n_checkpoints=1).audited(tmp_path)
    assert "Oslo" in (tmp_path / PAGE).read_text()
    page = rebuild_report(tmp_path, Disclosure(redacted=True)).read_text()
    assert "Oslo" not in page and "Rome" in page
    assert "Left out: 1 group of fewer than 20 records." in page


@pytest.mark.slow
@pytest.mark.parametrize("universe", [157, 1601], ids=["dots", "density"])
def test_no_list_of_a_redacted_dynamics_study_is_in_the_order_of_the_records(
    tmp_path: Path, universe: int
) -> None:
    study = made_up_study(tmp_path, (setting(universe=universe, epochs=4),))
    advantage = study.runs[0].paths.advantage[-1]
    rebuild_report(tmp_path)
    private = reader.order_correlations((tmp_path / PAGE).read_text(), advantage)
    assert max(private) > 0.7, "the attack works where the plane is shown"
    page = rebuild_report(tmp_path, Disclosure(redacted=True)).read_text()
    assert reader.order_correlations(page, advantage) == []
    assert reader.values_rows(page, advantage) == {} and reader.arrays(page) == {}


class Target:
    """A given model whose outputs do not depend on its members: only the report can tell them apart."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.is_member: BoolArray = rng.permutation(N_RECORDS) < N_RECORDS // 2
        level, leak, spread = rng.normal(0, 2, N_RECORDS), 3 * rng.random(N_RECORDS), rng.random(N_RECORDS)
        looks_in, *sides = rng.random((1 + N_REFERENCES, N_RECORDS)) < 0.5
        self.in_mask: BoolArray = np.array(sides)
        noise = (0.3 + 2 * spread) * rng.normal(size=(1 + N_REFERENCES, N_RECORDS))
        self.outputs: FloatArray = level + leak * looks_in + noise[0]
        self.references: FloatArray = level + leak * self.in_mask + noise[1:]

    def audited(self, folder: Path, is_member: BoolArray | None = None) -> str:
        """report.html of the audit, by default with the true members."""
        logits, references = (
            np.stack([x / 2, -x / 2], axis=-1).astype(np.float32) for x in (self.outputs, self.references)
        )
        predictions = Predictions(
            logits=logits,
            labels=np.zeros(N_RECORDS, dtype=np.int64),
            ids=np.array([f"{i}" for i in range(N_RECORDS)]),
            is_member=self.is_member if is_member is None else is_member,
            reference_logits=references,
            reference_in_mask=self.in_mask,
        )
        audit(SavedPredictions(predictions), out=folder, attacks=("loss", "lira"))
        return (folder / PAGE).read_text()

    def accuracy(self, guess: BoolArray) -> float:
        return float((guess == self.is_member).mean())


def shown_bits(page: str) -> FloatArray:
    """The bits on a page, in the order of the records."""
    embedded, bits = reader.arrays(page), np.empty(N_RECORDS)
    bits[embedded["id"].astype(int)] = embedded["bits"]
    return bits


@pytest.mark.slow
def test_nobody_tells_members_of_a_given_model_from_its_report(tmp_path: Path) -> None:
    by_bits, by_all_bits, by_curve, by_fine_curve = [], [], [], []
    for seed in range(20):
        target, folder = Target(seed), tmp_path / str(seed)
        page = target.audited(folder)
        known = (target.outputs, target.references, target.in_mask)
        by_bits.append(target.accuracy(reader.members_by_bits(shown_bits(page), *known)))
        outputs = np.concatenate([target.outputs[None], target.references])
        sides = np.concatenate([target.is_member[None], target.in_mask])
        of_all_models = reader.bits_alone(outputs, sides)
        by_all_bits.append(target.accuracy(reader.members_by_bits(of_all_models, *known)))

        scores = open_run(folder).scores("lira").values[0]
        curve = ("lira (AUC", scores, N_RECORDS // 2)
        by_curve.append(target.accuracy(reader.members_by_curve(page, *curve)))
        fine = rebuild_report(folder, Disclosure(with_membership=True)).read_text()
        by_fine_curve.append(target.accuracy(reader.members_by_curve(fine, *curve)))
    assert np.mean(by_all_bits) > 0.9, "the attack works where the target's side is in the bits"
    assert np.mean(by_fine_curve) > 0.65, "the attack works where the curve has every step"
    error = 0.5 / (len(by_bits) * N_RECORDS) ** 0.5
    assert abs(np.mean(by_bits) - 0.5) < 4 * error
    # Rates at a few thresholds are what an audit reports; they say a little about many records.
    assert np.mean(by_curve) < 0.5 + 0.02 + 4 * error


@pytest.fixture(scope="module")
def two_pages(only_quick_audits: None, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Reports of the same outputs with two member lists that have no record in common."""
    target, folder = Target(0), tmp_path_factory.mktemp("targets")
    return [target.audited(folder / "true"), target.audited(folder / "other", ~target.is_member)]


def test_what_a_report_says_about_records_does_not_depend_on_a_given_models_members(
    two_pages: list[str],
) -> None:
    first, second = map(reader.arrays, two_pages)
    assert first.keys() == second.keys() and "bits" in first
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)
    rows = [page.split('<section id="records"')[1].split("</section>")[0] for page in two_pages]
    assert rows[0] == rows[1]


def test_no_hash_on_a_given_models_report_confirms_a_guess_of_its_members(two_pages: list[str]) -> None:
    """A reader who knows all members but a few could try every rest against a hash of the list."""
    hashes = [set(re.findall(r">([0-9a-f]{16,64})<", page)) for page in two_pages]
    assert hashes[0] == hashes[1] != set()
