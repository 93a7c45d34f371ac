"""`leakscope bank merge`: what it says it did, what to do next, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from leakscope.audits.run import audit
from leakscope.bank.bank import Bank
from leakscope.bank.merge import plan_merge
from leakscope.disclosure import is_redacted, redaction_key
from leakscope.engine import request
from leakscope.evaluate.gate import Gate
from leakscope.recipe import EstimatorRecipe
from leakscope.types import Records
from tests.bank.small_bank import flip
from tests.cli.command import files_under, run_command

N_RECORDS = 60


def part(out: Path, seed: int, max_auc: float | None = None) -> Path:
    """An audit of six models, in blocks of two, that know their members."""
    rng = np.random.default_rng(0)
    records = Records(
        rng.normal(size=(N_RECORDS, 3)).astype(np.float32),
        rng.permutation(np.arange(N_RECORDS) % 2),
        np.array([f"p{i}" for i in range(N_RECORDS)]),
        name="noise",
        class_names=("no", "yes"),
    )
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    gate = None if max_auc is None else Gate(max_auc=max_auc)
    audit(records, recipe, out, models=6, seed=seed, attacks=("loss",), fpr=(0.1,), gate=gate)
    return out


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("audits")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(request, "MODELS_PER_BLOCK", 2)
        return part(root / "zero", 0), part(root / "one", 1)


@pytest.fixture
def halves(tmp_path: Path, audits: tuple[Path, Path]) -> tuple[Path, Path]:
    """Two unfinished copies of one bank: blocks 0 and 2."""
    for name, block in (("a", 0), ("b", 2)):
        whole = Bank.open(audits[0])
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(audits[0] / "run.json", folder)
        identity = plan_merge(audits).parts[0].bank.identity
        copy = Bank.create(folder, identity, whole.design(), np.load(audits[0] / "labels.npy"))
        copy.add_block(block, *whole.read_block(block))
    return tmp_path / "a", tmp_path / "b"


def test_it_says_what_it_did_and_what_is_next(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    out = tmp_path / "merged"
    done = run_command("bank", "merge", *audits, "--out", out)
    assert done.exit_code == 0, done
    first = done.out.splitlines()[0]
    assert first == (
        "2 banks of 60 noise records became one of 12 models (6 with seed 0, 6 with seed 1): " + str(out)
    )
    assert "12 models were each trained on a random half of 60 records (noise)." in done.out
    assert f"Next: leakscope verify {out}" in done.out
    assert run_command("verify", out).exit_code == 0
    assert json.loads((out / "results.json").read_text())["population"]["models"] == 12


def test_json_and_quiet(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    done = run_command("bank", "merge", *audits, "--out", tmp_path / "merged", "--json")
    found = json.loads(done.out)
    assert (found["models"], found["missing_models"], found["copies_of_one_bank"]) == (12, 0, False)
    assert found["results"] == json.loads((tmp_path / "merged" / "results.json").read_text())
    quiet = run_command("bank", "merge", *audits, "--out", tmp_path / "merged", "--quiet")
    assert quiet == (0, "", "")


def test_a_broken_gate_is_exit_code_1(tmp_path: Path) -> None:
    parts = [part(tmp_path / str(seed), seed, max_auc=0.55) for seed in (0, 1)]
    failed = run_command("bank", "merge", *parts, "--out", tmp_path / "merged", "--quiet")
    assert failed.exit_code == 1
    assert failed.err.startswith("leakscope: Gate failed: the AUC is at least ")


def test_unfinished_copies_say_what_is_missing(tmp_path: Path, halves: tuple[Path, Path]) -> None:
    out = tmp_path / "merged"
    redaction_key(halves[1])
    done = run_command("bank", "merge", *halves, "--out", out)
    assert is_redacted(out), "for the audit that completes it"
    assert done.exit_code == 0, done
    said, following = done.out.splitlines()
    assert said == (
        f"The 2 parts are copies of one bank of 6 models (seed 0); together they hold 4 of them: {out}"
    )
    assert following == (f"Next: the audit's own command with --out {out} trains the 2 missing models.")


def test_copies_that_make_a_whole_are_still_to_be_judged(
    tmp_path: Path, audits: tuple[Path, Path], halves: tuple[Path, Path]
) -> None:
    bank = Bank(halves[0])
    bank.add_block(1, *Bank.open(audits[0]).read_block(1))
    done = run_command("bank", "merge", *halves, "--out", tmp_path / "merged")
    assert "together they hold 6 of them" in done.out
    assert f"the audit's own command with --out {tmp_path / 'merged'} evaluates it" in done.out
    for half in halves:
        (half / "run.json").unlink()
    done = run_command("bank", "merge", *halves, "--out", tmp_path / "bank")
    assert f"Bank.open(Path('{tmp_path / 'bank'}'))" in done.out


def test_mistakes_are_one_line_and_exit_code_2(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    shutil.copytree(audits[0], tmp_path / "copy")
    before = files_under(tmp_path)
    for parts, named in (
        ((audits[0],), "give at least two folders to merge"),
        ((audits[0], tmp_path / "nowhere"), "holds no bank"),
        ((audits[0], tmp_path / "copy"), "are the same bank (seed 0)"),
        ((audits[0], audits[0]), "is named twice"),
    ):
        refused = run_command("bank", "merge", *parts, "--out", tmp_path / "merged")
        assert refused.exit_code == 2
        assert refused.out == ""
        (line,) = refused.err.splitlines()
        assert line.startswith("leakscope: ")
        assert named in line
    assert run_command("bank", "merge", *audits).exit_code == 2  # no --out
    assert files_under(tmp_path) == before


def test_a_damaged_part_is_one_line_and_exit_code_3(tmp_path: Path, audits: tuple[Path, Path]) -> None:
    shutil.copytree(audits[1], tmp_path / "part")
    flip(tmp_path / "part" / "signals" / "loss.npy", -1)
    failed = run_command("bank", "merge", audits[0], tmp_path / "part", "--out", tmp_path / "merged")
    assert failed.exit_code == 3
    (line,) = failed.err.splitlines()
    assert f"{tmp_path / 'part'}: signals/loss.npy: block 2 (models 4 to 5) does not match" in line
    assert "run the command that made the bank again, which repairs it" in line
