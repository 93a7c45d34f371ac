"""`leakscope.open_run`: everything a finished audit holds, without training or changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import leakscope
from leakscope.attacks.lira import Lira
from leakscope.attacks.thresholds import LossThreshold
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from tests.audits.test_predictions import saved
from tests.cli.command import files_under
from tests.engine.small_population import N_RECORDS, audited, records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("opened") / "run"
    audited(out)
    return out


@pytest.fixture
def run(folder: Path) -> leakscope.Run:
    return leakscope.open_run(folder)


def test_the_verdict_is_that_of_the_audit(run: leakscope.Run, folder: Path, tmp_path: Path) -> None:
    verdict = audited(tmp_path / "again")
    assert run.verdict.results == verdict.results == run.results
    assert str(run.verdict) == str(verdict)
    assert repr(run) == f"Run({str(folder)!r})"
    assert leakscope.open_run(str(folder)).results == run.results


def test_the_bank_holds_signals_and_design(run: leakscope.Run) -> None:
    assert run.bank.design().in_mask.shape == (8, N_RECORDS)
    assert run.signals.arrays["loss"].shape == (8, 2, N_RECORDS)
    np.testing.assert_array_equal(run.design.in_mask, run.bank.design().in_mask)


@pytest.mark.parametrize("attack", ["loss", "lira(online=false)", {"name": "lira", "online": False}, Lira()])
def test_scores_of_any_attack_belong_to_ids(run: leakscope.Run, attack: Any) -> None:
    scored = run.scores(attack)
    assert scored.values.shape == scored.is_member.shape == (8, N_RECORDS)
    assert scored.ids.tolist() == records().ids.tolist()
    assert scored.targets.tolist() == list(range(8))
    np.testing.assert_array_equal(scored.is_member, run.design.in_mask)


def test_scores_are_the_attacks_own(run: leakscope.Run) -> None:
    scored, loss = run.scores("loss"), np.load(run.folder / "signals" / "loss.npy")
    np.testing.assert_array_equal(scored.values, -loss[:, -1].astype(np.float64))
    assert run.scores(LossThreshold()).attack == "loss"
    auc = np.mean([roc_auc_score(m, v) for m, v in zip(scored.is_member, scored.values, strict=True)])
    assert run.results.attacks["loss"].auc.value == pytest.approx(auc)


def test_records_are_one_row_per_record(run: leakscope.Run) -> None:
    table = run.records
    assert table["id"].to_list() == records().ids.tolist()
    assert {"label", "advantage", "bits", "exposed"} <= set(table.columns)


def test_a_curve_draws_itself(run: leakscope.Run) -> None:
    curve = run.roc("lira", target=3)
    assert (curve.fpr[-1], curve.tpr[-1]) == (1.0, 1.0)
    assert curve.n_members + curve.n_nonmembers == N_RECORDS
    assert "<img" in curve._repr_html_()
    for target in (8, -1):
        with pytest.raises(InputError, match=f"target={target}: the run has targets 0 to 7"):
            run.roc("lira", target=target)


def test_looking_changes_nothing(run: leakscope.Run, folder: Path) -> None:
    before = files_under(folder)
    run.scores("rmia")
    run.roc("lira")
    str(run.verdict)
    assert len(run.records) == N_RECORDS
    assert files_under(folder) == before


def test_one_given_model_has_one_target(tmp_path: Path) -> None:
    leakscope.audit(leakscope.SavedPredictions(saved(n_references=4)), out=tmp_path)
    run = leakscope.open_run(tmp_path)
    scored = run.scores("eb_lira")
    assert scored.values.shape == (1, 400)
    np.testing.assert_array_equal(scored.is_member[0], saved(n_references=4).is_member)
    auc = roc_auc_score(scored.is_member[0], scored.values[0])
    assert run.results.attacks["eb_lira"].auc.value == pytest.approx(auc)
    assert "is_member" in run.records.columns


def test_diverged_models_are_left_out(tmp_path: Path) -> None:
    fragile = Recipe(net="tests.engine.nets:fragile", epochs=2)
    verdict = leakscope.audit(records(), fragile, tmp_path, models=16, device="cpu", attacks=["loss"])
    n_converged = 16 - len(verdict.results.population.diverged_models)
    assert 0 < n_converged < 16
    scored = leakscope.open_run(tmp_path).scores("loss")
    assert scored.values.shape == (n_converged, N_RECORDS)
    assert np.isfinite(scored.values).all()


def test_what_is_no_audit_is_refused(tmp_path: Path, run: leakscope.Run) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        leakscope.open_run(tmp_path)
    (tmp_path / "run.json").write_text('{"kind": "compare", "config": {}}')
    with pytest.raises(InputError, match="is a run of kind 'compare'; open_run opens audits"):
        leakscope.open_run(tmp_path)
    with pytest.raises(InputError, match="signal 'logits'"):
        run.scores("shokri")
    with pytest.raises(InputError, match="attack='guess' is unknown"):
        run.roc("guess")
