"""Pages written again: what was redacted stays redacted, and the private page is never overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from leakscope.audits.finished import FinishedRun
from leakscope.audits.merged import merge_runs
from leakscope.audits.run import audit
from leakscope.disclosure import KEY, Disclosure
from leakscope.disk.storage import watched
from leakscope.recipe import EstimatorRecipe
from leakscope.report.page import PAGE, REDACTED_PAGE
from leakscope.runs.kinds import rebuild_report
from leakscope.types import Records
from tests.report.html.made_up import made_up_study, setting
from tests.report.html.small_studies import small_ensemble, small_leakage, small_scaling

PRIVATE = {PAGE, "report.md", "figures", "previews.npz"}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakscope.report.png.draw_png", lambda charts: b"")


@pytest.fixture
def committed() -> Iterator[list[str]]:
    """Names of all files that were written, also of those that are gone."""
    names: list[str] = []
    with watched(lambda path: names.append(path.name)):
        yield names


def audited(out: Path, seed: int = 0, **settings: Any) -> None:
    rng = np.random.default_rng(0)
    records = Records(
        rng.normal(size=(60, 3)).astype(np.float32),
        rng.permutation(np.arange(60) % 2),
        np.array([f"p{i}" for i in range(60)]),
        name="noise",
        class_names=("no", "yes"),
    )
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    audit(
        records,
        recipe,
        out,
        models=6,
        seed=seed,
        attacks=("loss",),
        signals=("correct",),
        fpr=(0.1,),
        **settings,
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_every_rerun_of_a_redacted_audit_is_redacted(tmp_path: Path, committed: list[str]) -> None:
    audited(tmp_path / "run", disclosure=Disclosure(redacted=True))
    assert REDACTED_PAGE in names(tmp_path / "run")
    audited(tmp_path / "run")
    audit(FinishedRun(tmp_path / "run"), out=tmp_path / "run", attacks=("correctness",))
    assert "correctness" in (tmp_path / "run" / REDACTED_PAGE).read_text()
    assert rebuild_report(tmp_path / "run") == tmp_path / "run" / REDACTED_PAGE
    assert not PRIVATE & {*committed, *names(tmp_path / "run")}
    assert rebuild_report(tmp_path / "run", Disclosure(redacted=False)) == tmp_path / "run" / PAGE


def test_a_redacted_audit_that_was_killed_is_redacted_when_it_is_resumed(
    tmp_path: Path, committed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("leakscope.evaluate.judge.judge", killed)
        audited(tmp_path / "run", disclosure=Disclosure(redacted=True))
    audited(tmp_path / "run")
    assert REDACTED_PAGE in names(tmp_path / "run") and not PRIVATE & set(committed)


@pytest.mark.parametrize("redacted_parts", [(True, True), (False, True)])
def test_merging_redacted_audits_writes_no_private_page(
    tmp_path: Path, redacted_parts: tuple[bool, bool]
) -> None:
    parts = [tmp_path / "a", tmp_path / "b"]
    for seed, (part, redacted) in enumerate(zip(parts, redacted_parts, strict=True)):
        audited(part, seed, disclosure=Disclosure(redacted=redacted))
    with watched(lambda path: written.append(path.name)):
        written: list[str] = []
        merge_runs(parts, tmp_path / "merged")
    assert REDACTED_PAGE in names(tmp_path / "merged") and not PRIVATE & names(tmp_path / "merged")
    assert PAGE not in written
    assert (tmp_path / "merged" / KEY).read_bytes() != (parts[1] / KEY).read_bytes()


def test_a_redacted_page_beside_a_private_one_changes_neither_and_both_are_kept_up_to_date(
    tmp_path: Path,
) -> None:
    audited(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in (PAGE, "report.md")}
    rebuild_report(tmp_path, Disclosure(redacted=True))
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    audit(FinishedRun(tmp_path), out=tmp_path, attacks=("correctness",))
    for name in (PAGE, REDACTED_PAGE):
        assert "correctness" in (tmp_path / name).read_text(), name


def small_dynamics(folder: Path) -> Any:
    return made_up_study(folder, (setting(universe=60, epochs=4),))


_STUDIES: dict[str, Callable[[Path], Any]] = {
    "dynamics": small_dynamics,
    "ensemble": small_ensemble,
    "leakage": small_leakage,
    "scaling": small_scaling,
}
_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("ensemble", "leakage", "scaling")]


@pytest.mark.parametrize("kind", ["dynamics", *_SLOW])
def test_a_study_gets_a_redacted_page_of_its_own_and_keeps_it(kind: str, tmp_path: Path) -> None:
    _STUDIES[kind](tmp_path)
    private = rebuild_report(tmp_path).read_text()
    redacted = rebuild_report(tmp_path, Disclosure(redacted=True))
    assert redacted == tmp_path / REDACTED_PAGE and "Redacted:" in redacted.read_text()
    assert (tmp_path / PAGE).read_text() == private and "Redacted:" not in private
    redacted.unlink()
    if kind == "dynamics":
        rebuild_report(tmp_path)
    else:
        _STUDIES[kind](tmp_path)  # the same study again
    assert "Redacted:" in redacted.read_text() and "Redacted:" not in (tmp_path / PAGE).read_text()
