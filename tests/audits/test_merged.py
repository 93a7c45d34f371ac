"""Audits trained in parts: merged they are one audit of all models, judged and verified like any other."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from leakscope.audits.merged import merge_runs
from leakscope.audits.run import audit
from leakscope.bank.bank import Bank
from leakscope.engine import request
from leakscope.errors import BankMismatchError, InputError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import EstimatorRecipe
from leakscope.runs.run import open_run
from leakscope.runs.verification import verify_run
from tests.cli.command import files_under
from tests.engine.small_population import noise

KNOWS_ITS_MEMBERS = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
IGNORES_THEM = EstimatorRecipe(DummyClassifier(strategy="constant", constant=1), processes=1)


def part(out: Path, seed: int, **changes: Any) -> Verdict:
    given: dict[str, Any] = {
        "records": noise(80, towns="ab"),
        "recipe": KNOWS_ITS_MEMBERS,
        "models": 6,
        **changes,
    }
    fixed: dict[str, Any] = {"attacks": ("loss", "lira"), "fpr": (0.1,), "device": "cpu"}
    return audit(given.pop("records"), out=out, seed=seed, **fixed, **given)


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same audit with seeds 3 and 4, of 6 and 8 models, with a gate that fails."""
    root = tmp_path_factory.mktemp("audits")
    for seed, models in ((3, 6), (4, 8)):
        part(root / str(seed), seed, models=models, gate=Gate(max_auc=0.6))
    return root / "3", root / "4"


def test_a_merged_audit_is_judged_by_all_models(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    merged = merge_runs(audits, tmp_path / "merged")
    assert merged.verdict is not None
    results, first = merged.verdict.results, open_run(audits[0]).results.config
    loss = np.concatenate([np.load(folder / "signals" / "loss.npy")[:, -1] for folder in audits])
    in_mask = np.concatenate([np.load(folder / "design.npy") for folder in audits])
    aucs = [roc_auc_score(members, -row) for row, members in zip(loss, in_mask, strict=True)]
    assert results.attacks["loss"].auc.value == pytest.approx(np.mean(aucs))
    assert results.attacks["lira"].auc.low > 0.6
    assert results.population.models == 14
    assert results.population.seed == (3, 4)
    assert results.config.source.kind == "merged"
    assert replace(results.config, source=first.source) == first
    assert merged.verdict.outcome == "failed"


def test_a_merged_audit_is_a_run_like_any_other(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    merge_runs(audits, tmp_path / "merged")
    assert verify_run(tmp_path / "merged").problems == []
    assert {path.name for path in (tmp_path / "merged").iterdir()} == {
        path.name for path in audits[0].iterdir()
    }
    report = (tmp_path / "merged" / "report.md").read_text()
    assert "14 models were each trained on a random half of 80 records (noise)." in report
    assert "- Seed: 3, 4\n" in report
    metadata, expected = RecordMetadata.read(tmp_path / "merged"), RecordMetadata.read(audits[0])
    np.testing.assert_array_equal(metadata.ids, expected.ids)
    np.testing.assert_array_equal(metadata.groups["town"], expected.groups["town"])


def test_merging_again_changes_nothing_and_parts_are_never_touched(
    tmp_path: Path, audits: tuple[Path, Path]
) -> None:
    before = files_under(audits[0].parent)
    merge_runs(audits, tmp_path / "merged")
    once = files_under(tmp_path / "merged")
    merge_runs(audits, tmp_path / "merged")
    again = files_under(tmp_path / "merged")
    assert again.keys() == once.keys()
    assert [name for name in once if once[name] != again[name] and not name.endswith(".png")] == []
    assert files_under(audits[0].parent) == before


@pytest.mark.slow
def test_where_nothing_leaks_merging_finds_nothing(tmp_path: Path) -> None:
    for seed in (0, 1):
        part(tmp_path / str(seed), seed, recipe=IGNORES_THEM)
    merged = merge_runs([tmp_path / "0", tmp_path / "1"], tmp_path / "merged")
    assert merged.verdict is not None
    for figures in merged.verdict.results.attacks.values():
        assert figures.auc.low <= 0.5 <= figures.auc.high
    assert merged.verdict.results.exposed.records is None  # 12 models cannot detect a single one


@pytest.mark.slow
def test_copies_that_were_trained_further_become_one_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of two: one copy stopped after the first, another holds the third, nobody has the second."""
    monkeypatch.setattr(request, "MODELS_PER_BLOCK", 2)
    undisturbed = part(tmp_path / "undisturbed", 0)
    stop_after(monkeypatch, 1, lambda: part(tmp_path / "a", 0))
    stop_after(monkeypatch, 3, lambda: part(tmp_path / "b", 0))
    shutil.rmtree(tmp_path / "b" / "blocks" / "00000")
    shutil.rmtree(tmp_path / "b" / "blocks" / "00001")
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert merged.merge.is_of_copies
    assert merged.verdict is None
    assert merged.bank.pending() == [1]
    trained: list[float] = []
    assert part(tmp_path / "merged", 0, progress=trained.append).results == undisturbed.results
    assert trained[0] == 4  # models found on disk
    assert verify_run(tmp_path / "merged").problems == []


def stop_after(monkeypatch: pytest.MonkeyPatch, n_blocks: int, run: Any) -> None:
    """Kills a run once it has committed so many blocks."""
    add_block, committed = Bank.add_block, []

    def add_and_die(self: Bank, block: int, *rest: Any) -> None:
        add_block(self, block, *rest)
        committed.append(block)
        if len(committed) == n_blocks:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Bank, "add_block", add_and_die)
        with pytest.raises(KeyboardInterrupt):
            run()


def test_a_finished_copy_beside_an_unfinished_one_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "MODELS_PER_BLOCK", 2)
    finished = part(tmp_path / "a", 0)
    stop_after(monkeypatch, 1, lambda: part(tmp_path / "b", 0))
    merged = merge_runs([tmp_path / "b", tmp_path / "a"], tmp_path / "merged")
    assert merged.verdict is not None
    assert merged.verdict.results == finished.results


def test_banks_without_a_run_become_a_bank_without_one(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    for seed, folder in zip((3, 4), audits, strict=True):
        shutil.copytree(folder, tmp_path / str(seed))
        (tmp_path / str(seed) / "run.json").unlink()
    merged = merge_runs([tmp_path / "3", tmp_path / "4"], tmp_path / "merged")
    assert merged.verdict is None
    assert not merged.are_audits
    assert not (tmp_path / "merged" / "run.json").exists()
    assert Bank.open(tmp_path / "merged").damage() == []
    check_refused(tmp_path, (audits[0], tmp_path / "4"), "is an audit and", "a bank alone")
    shutil.copytree(audits[1], tmp_path / "run")
    (tmp_path / "run" / "identity.json").unlink()
    check_refused(tmp_path, (tmp_path / "3", tmp_path / "4"), "holds a run", out="run")


def check_refused(
    root: Path, parts: tuple[Path, ...], *named: str, out: str = "new", kind: type[InputError] = InputError
) -> None:
    before = files_under(root)
    with pytest.raises(kind) as refused:
        merge_runs(parts, root / out)
    assert all(words in str(refused.value) for words in named), refused.value
    assert files_under(root) == before


def test_audits_with_different_gates_are_refused(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    part(tmp_path / "other", 5, gate=Gate(max_auc=0.7))
    check_refused(
        tmp_path,
        (audits[0], tmp_path / "other"),
        f"{tmp_path / 'other'} has another gate than {audits[0]} (max_auc=0.7, but max_auc=0.6 there)",
        "rerun one with the [gate] of the other, which trains nothing",
    )


def test_audits_of_other_records_are_refused(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    part(tmp_path / "other", 5, records=noise(80, seed=1, towns="ab"), gate=Gate(max_auc=0.6))
    named = (str(tmp_path / "other"), "records.sha256 is")
    check_refused(tmp_path, (audits[0], tmp_path / "other"), *named, kind=BankMismatchError)


@pytest.mark.parametrize("name", ["results.json", "facts.parquet"])
def test_an_audit_that_was_not_judged_is_refused(
    tmp_path: Path, audits: tuple[Path, Path], name: str
) -> None:
    shutil.copytree(audits[0], tmp_path / "part")
    (tmp_path / "part" / name).unlink()
    check_refused(tmp_path, (tmp_path / "part", audits[1]), name, "is missing; run the same audit again")


def test_other_kinds_of_runs_are_refused(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    shutil.copytree(audits[0], tmp_path / "study")
    (tmp_path / "study" / "run.json").write_text('{"kind": "study cooking", "config": {}}')
    check_refused(tmp_path, (tmp_path / "study", audits[1]), "is a run of kind 'study cooking'")
    shutil.copytree(audits[0], tmp_path / "single")
    path = tmp_path / "single" / "results.json"
    results = json.loads(path.read_text())
    path.write_text(json.dumps({**results, "config": {**results["config"], "targets": [0]}}))
    check_refused(tmp_path, (tmp_path / "single", audits[1]), "is an audit of one given model")


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    part(tmp_path / "other", 5)
    check_refused(tmp_path, audits, "holds a different bank", "--out", out="other", kind=BankMismatchError)
    check_refused(audits[0].parent, audits, "is one of the parts", out=audits[1].name)
