"""Every kind of run that knows single records, attacked as docs/redaction.md's reader would.

The reader recomputed the figures of every record, and looks for them on the page: as lists with one entry per
record, and as single numbers with more digits than chance explains. Where the members of a given model are
the secret, the reader also compares what depends on them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import leakscope
from leakscope.array_types import FloatArray
from leakscope.audits.merged import merge_runs
from leakscope.bank.run_folder import stored_array
from leakscope.compare.compare import compare
from leakscope.data.predictions import Predictions
from leakscope.disclosure import KEY, Disclosure
from leakscope.disk.parquet import read_stored
from leakscope.report.page import PAGE, REDACTED_PAGE
from leakscope.runs.kinds import rebuild_report
from leakscope.single_model.attack import attack
from leakscope.single_model.ensemble import attackers
from leakscope.studies.dynamics import study as dynamics
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.studies.ensemble import study as ensemble
from leakscope.studies.leakage import study as leakage
from leakscope.studies.leakage.config import LeakageConfig
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import study as scaling
from tests.cli.test_attack_command import SMALL as SMALL_ATTACKERS
from tests.made_up_audits import made_up_audit, quick_single_records
from tests.report import page_attacks as reader
from tests.report.html.made_up import made_up_study, setting
from tests.studies.test_ensemble import CONFIG as ENSEMBLE
from tests.studies.test_scaling import SMALL as SCALING
from tests.synthetic_runs import Synthetic

REDACTED = Disclosure(redacted=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("leakscope.report.png.draw_png", lambda charts: b"")
    monkeypatch.setattr(attackers, "ATTACKERS", SMALL_ATTACKERS)
    monkeypatch.setattr(scaling_judge, "_N_DRAWS", 50)
    with quick_single_records():
        yield


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        run: makes one in a folder.
        known: the figures of single records that the reader recomputed, from the folder.
        shows_records: whether its private page shows some of them, so that the attack must succeed there.
    """

    run: Callable[[Path, Disclosure], object]
    known: Callable[[Path], list[FloatArray]]
    shows_records: bool = True


def audits_into(folder: Path, disclosure: Disclosure, n: int = 2) -> list[Path]:
    parts = [folder.with_name(f"{folder.name}-{k}") for k in range(n)]
    for seed, part in enumerate(parts):
        Synthetic(n_checkpoints=1, seed=seed, attacks=("lira",)).audited(part, disclosure)
    return parts


def run_merge(folder: Path, disclosure: Disclosure) -> None:
    merge_runs(audits_into(folder, disclosure), folder)


def run_compare(folder: Path, disclosure: Disclosure) -> None:
    compare(audits_into(folder, disclosure), folder)


def run_dynamics(folder: Path, disclosure: Disclosure) -> None:
    if disclosure.redacted:
        small = Setting(models=4, universe=100, epochs=2, every=2, batch_size=32)
        dynamics.run(DynamicsConfig((small,), n_permutations=1), folder, "cpu", disclosure=disclosure)
    else:
        made_up_study(folder, (setting(universe=157, epochs=4),))
        rebuild_report(folder)


def run_leakage(folder: Path, disclosure: Disclosure) -> None:
    config = LeakageConfig(dataset="digits", records=21, trials=60, figures=(5,), regularizer_steps=4)
    if disclosure.redacted:  # which files there are does not depend on how many records and trials there were
        config = replace(config, records=3, trials=20, network_records=1, network_trials=2)
    leakage.run(config, folder, disclosure=disclosure)


def run_scaling(folder: Path, disclosure: Disclosure) -> None:
    scaling.run(SCALING, folder, disclosure=disclosure)


def run_ensemble(folder: Path, disclosure: Disclosure) -> None:
    ensemble.run(ENSEMBLE, folder, device="cpu", attackers=SMALL_ATTACKERS, disclosure=disclosure)


def run_attack(folder: Path, disclosure: Disclosure) -> None:
    attack(*given_model(members_seed=0), folder, disclosure=disclosure)


def given_model(members_seed: int, n: int = 160) -> tuple[Predictions, Predictions]:
    """Public and private outputs of a model; the outputs do not depend on the member list."""
    rng = np.random.default_rng(3)
    logits, labels = rng.normal(size=(2, n, 3)).astype(np.float32), rng.integers(0, 3, (2, n))
    is_member = np.random.default_rng(members_seed).permutation(n) < n // 2
    ids = np.array([f"person-{i}" for i in range(n)])
    return Predictions(logits[0], labels[0], ids, is_member), Predictions(logits[1], labels[1], ids)


def figures_of_records(folder: Path) -> list[FloatArray]:
    table = read_stored(folder / "records.parquet")
    names = [name for name in table.columns if table[name].dtype.is_float()]
    return [table[name].to_numpy() for name in names]


def scores(folder: Path) -> list[FloatArray]:
    """Each attacker's score of each record."""
    files = [path for part in ("validation", "private") for path in sorted((folder / part).glob("*.npy"))]
    return [np.atleast_2d(stored_array(path))[0] for path in files if path.stem != "is_member"]


def numbers_of_records(folder: Path) -> list[FloatArray]:
    """Those that differ from record to record; a share of a few trials equals many a figure by chance."""
    points = [np.load(path) for path in sorted(folder.rglob("numbers.npy"))]
    rows = [np.abs(row) for numbers in points for row in numbers]
    return [row for row in rows if len(np.unique(np.round(row, 8))) == len(row)]


def losses(folder: Path) -> list[FloatArray]:
    """Of every model, each on the records of its own dataset."""
    arrays = [np.load(path) for path in sorted(folder.rglob("signals/loss.npy"))]
    return [row for array in arrays for row in array.reshape(-1, array.shape[-1])]


KINDS = {
    "merge": Kind(run_merge, figures_of_records),
    "compare": Kind(run_compare, figures_of_records, shows_records=False),
    "dynamics": Kind(run_dynamics, figures_of_records),
    "leakage": Kind(run_leakage, numbers_of_records),
    "scaling": Kind(run_scaling, losses, shows_records=False),
    "ensemble": Kind(run_ensemble, scores, shows_records=False),
    "attack": Kind(run_attack, scores, shows_records=False),
}

NAMES = [
    name if name in ("attack", "ensemble") else pytest.param(name, marks=pytest.mark.slow) for name in KINDS
]


def n_matched(page: str, known: list[FloatArray]) -> int:
    """How many records' figures are on the page: in lists of all records, or as single numbers."""
    lists = sum(len(reader.values_rows(page, values)) for values in known)
    lists += sum(correlation > 0.7 for values in known for correlation in _correlations(page, values))
    return lists + sum(int(reader.is_shown(page, values).sum()) for values in known)


def _correlations(page: str, known: FloatArray) -> list[float]:
    if not np.isfinite(known).all() or len(np.unique(known)) < 2:
        return []
    return reader.order_correlations(page, known)


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_of_a_record_can_be_matched_on_a_redacted_page(tmp_path: Path, name: str) -> None:
    kind, folder = KINDS[name], tmp_path / "run"
    kind.run(folder, Disclosure())
    known = kind.known(folder)
    assert known and all(len(values) >= 20 for values in known)
    if kind.shows_records:
        private = n_matched((folder / PAGE).read_text(), known)
        assert private > 0, "the attack works where records are shown"
    page = rebuild_report(folder, REDACTED)
    assert page.name == REDACTED_PAGE
    assert n_matched(page.read_text(), known) == 0
    assert reader.arrays(page.read_text()) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_is_redacted_from_the_start_has_no_private_page(tmp_path: Path, name: str) -> None:
    kind, folder = KINDS[name], tmp_path / "run"
    kind.run(folder, REDACTED)
    names = {path.name for path in folder.iterdir()}
    assert {REDACTED_PAGE, KEY} <= names and not {PAGE, "report.md", "figures", "previews.npz"} & names
    again = rebuild_report(folder)  # asked for nothing, it stays redacted
    assert again.name == REDACTED_PAGE and not (folder / PAGE).exists()


def extremes(page: str, values: FloatArray) -> bool:
    """Whether the page says what the lowest and the highest score of a record are."""
    return any(f"{values.min():.{n}f} to {values.max():.{n}f}" in page for n in (2, 3, 4))


@pytest.mark.parametrize("run", [run_attack, run_ensemble])
def test_the_record_with_the_highest_score_has_no_figure_of_its_own(
    tmp_path: Path, run: Callable[[Path, Disclosure], None]
) -> None:
    run(tmp_path, Disclosure())
    private = [stored_array(path)[0] for path in sorted((tmp_path / "private").glob("*.npy"))]
    assert all(extremes((tmp_path / PAGE).read_text(), values) for values in private)
    page = rebuild_report(tmp_path, REDACTED).read_text()
    assert not any(extremes(page, values) for values in private)


def test_nobody_tells_an_attacks_members_from_the_curves_of_its_redacted_page(tmp_path: Path) -> None:
    run_attack(tmp_path, Disclosure())
    is_member = stored_array(tmp_path / "validation" / "is_member.npy")
    page, n_members, right = (tmp_path / PAGE).read_text(), int(is_member.sum()), []
    for attacker in SMALL_ATTACKERS:
        scores = stored_array(tmp_path / "validation" / f"{attacker.name}.npy")[0]
        guess = reader.members_by_curve(page, f"{attacker.name}, validation", scores, n_members)
        right.append((guess == is_member).mean())
    assert np.mean(right) > 0.65, "the attack works where the curve has every step"
    assert reader.traces(rebuild_report(tmp_path, REDACTED).read_text()) == []


def hashes(page: str) -> set[str]:
    """Hexadecimal digits in the text of a page; digits alone belong to numbers."""
    return set(re.findall(r"\b(?=\d*[a-f])[0-9a-f]{12,64}\b", page))


def test_no_hash_of_an_attacks_redacted_page_confirms_a_guess_of_its_members(tmp_path: Path) -> None:
    pages = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        attack(*given_model(seed), folder)
        pages.append([(folder / PAGE).read_text(), rebuild_report(folder, REDACTED).read_text()])
    (first, first_redacted), (second, second_redacted) = pages
    assert hashes(first) != hashes(second), "the attack works on the private page"
    assert hashes(first_redacted) == hashes(second_redacted) != set()


@pytest.mark.slow
@pytest.mark.parametrize("disclosure", [Disclosure(), REDACTED], ids=["private", "redacted"])
def test_no_hash_of_a_comparison_confirms_a_guess_of_a_given_models_members(
    tmp_path: Path, disclosure: Disclosure
) -> None:
    pages = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        for name in ("first", "second"):
            given = leakscope.SavedPredictions(given_model(seed)[0])
            leakscope.audit(given, out=folder / name, attacks=("loss",), fpr=(0.1,))
        compare([folder / name for name in ("first", "second")], folder / "compared", disclosure)
        pages.append(hashes(rebuild_report(folder / "compared").read_text()))
    assert pages[0] == pages[1] != set()


@pytest.mark.slow
def test_a_comparison_of_a_redacted_audit_is_redacted_unless_asked(tmp_path: Path) -> None:
    for name in ("first", "second"):
        made_up_audit(tmp_path / name, 1.0, attacks=("loss",))
    (tmp_path / "second" / KEY).write_bytes(bytes(32))
    runs = [tmp_path / "first", tmp_path / "second"]
    compare(runs, tmp_path / "out")
    assert not (tmp_path / "out" / PAGE).exists() and (tmp_path / "out" / REDACTED_PAGE).exists()
    shutil.rmtree(tmp_path / "out")
    compare(runs, tmp_path / "out", Disclosure(redacted=False))
    assert (tmp_path / "out" / PAGE).exists()
