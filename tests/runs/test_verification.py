"""`verify` believes nothing: every byte against its checksum, every number from the signals."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.audits.run import audit
from leakscope.data.predictions import read_predictions
from leakscope.errors import CorruptBankError, InputError, LeakscopeError
from leakscope.runs.kinds import rebuild_report
from leakscope.runs.verification import verify_run
from leakscope.single_model.attack import attack
from leakscope.single_model.ensemble import attackers
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import page as scaling_report
from leakscope.studies.scaling.study import ScalingConfig, run
from tests.bank.small_bank import flip
from tests.cli.test_attack_command import SMALL as SMALL_ATTACKERS
from tests.cli.test_attack_command import save_predictions
from tests.engine.small_population import RECIPE, records

Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """One good run of each kind, to be copied before it is harmed."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scaling_report, "write_report", lambda *_: None)
        patched.setattr(scaling_judge, "_N_DRAWS", 50)
        study = ScalingConfig(hidden_widths=(4, 6, 9), n_repeats=2, n_shadow=1, n_reference=2, n_samples=60)
        run(study, folder / "study")
        audit(records(), RECIPE, folder / "audit", models=8, fpr=(0.1,), device="cpu")
        patched.setattr(attackers, "ATTACKERS", SMALL_ATTACKERS)
        public, private = (save_predictions(folder / f"{seed}.npz", seed) for seed in (1, 2))
        attack(read_predictions(public), read_predictions(private), folder / "attack")
        yield {kind: folder / kind for kind in ("study", "audit", "attack")}


@pytest.fixture(params=["study", "audit"])
def good(request: pytest.FixtureRequest, made: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[request.param], tmp_path / "run"))


@pytest.fixture
def study(made: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made["study"], tmp_path / "run"))


def number_paths(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Where the numbers of a JSON document are."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from number_paths(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from number_paths(inner, (*at, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at


def changed(value: Any, at: Path_, by: float) -> Any:
    copy = json.loads(json.dumps(value))
    inner = copy
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] += by
    return copy


def dotted(at: Path_) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at)
    return text.removeprefix(".")


def test_a_good_run_passes(good: Path) -> None:
    found = verify_run(good)
    assert found.problems == []
    assert len(found.checked) == (5 if (good / "records.parquet").exists() else 3)
    results = json.loads((good / "results.json").read_text())
    n_numbers = len(list(number_paths(results)))
    assert found.checked[2] == f"{n_numbers:,} numbers of results.json"


@pytest.mark.slow
def test_every_changed_number_is_named(good: Path) -> None:
    path = good / "results.json"
    results = json.loads(path.read_text())
    everywhere = list(number_paths(results))
    assert len(everywhere) > 40
    some = everywhere[:: max(1, len(everywhere) // 20)]
    # What the results are computed from is changed one by one, figures by fives: `verify` names up to ten.
    inputs = [at for at in some if at[0] in ("config", "format_version")]
    figures = [at for at in some if at not in inputs]
    fives = [figures[start : start + 5] for start in range(0, len(figures), 5)]
    for together in [*([at] for at in inputs), *fives]:
        document = results
        for at in together:
            document = changed(document, at, by=1)
        path.write_text(json.dumps(document))
        problems = verify_run(good).problems
        for at in together:
            is_refused = {"fpr_budgets", "format_version"} & {*at}
            named = "cannot be computed again" if is_refused else f"{dotted(at)} is "
            assert any(f"{path}: {named}" in problem for problem in problems), dotted(at)


def test_a_small_change_of_a_number_is_named_and_rounding_is_not(study: Path) -> None:
    path = study / "results.json"
    results = json.loads(path.read_text())
    at: Path_ = ("results", 1, "repeats", 0, "auc", "lira")
    path.write_text(json.dumps(changed(results, at, by=1e-6)))
    (problem,) = verify_run(study).problems
    assert problem.startswith(f"{path}: results[1].repeats[0].auc.lira is ")
    assert problem.endswith("from the signals")
    path.write_text(json.dumps(changed(results, at, by=1e-12)))
    assert verify_run(study).problems == [f"{path}: does not match its checksum"]


@pytest.mark.parametrize("at", [("split", "training"), ("split", "validation"), ("public", "records")])
def test_a_changed_number_of_public_records_is_named(
    made: dict[str, Path], tmp_path: Path, at: Path_
) -> None:
    run = Path(shutil.copytree(made["attack"], tmp_path / "run"))
    path = run / "results.json"
    path.write_text(json.dumps(changed(json.loads(path.read_text()), at, by=1)))
    assert any("from the signals" in problem for problem in verify_run(run).problems)


def test_missing_and_added_fields_are_named(study: Path) -> None:
    path = study / "results.json"
    results = json.loads(path.read_text())
    results["results"][1]["mean_luck"] = 0.5
    results["results"][2]["repeats"].pop()
    path.write_text(json.dumps(results))
    (problem,) = verify_run(study).problems
    assert "is damaged (results.1.mean_luck: no such field)" in problem
    del results["results"][1]["mean_luck"]
    path.write_text(json.dumps(results))
    (problem,) = verify_run(study).problems
    assert "results[2].repeats is" in problem
    del results["results"][0]["mean_train_acc"]
    path.write_text(json.dumps(results))
    (problem,) = verify_run(study).problems
    assert "is damaged (results.0.mean_train_acc: Field required)" in problem


def test_versions_of_packages_are_not_results(study: Path) -> None:
    path = study / "results.json"
    results = json.loads(path.read_text())
    results["runtime"]["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(results))
    assert verify_run(study).problems == [f"{path}: does not match its checksum"]
    results["runtime"]["n_models"] += 1
    path.write_text(json.dumps(results))
    assert len(verify_run(study).problems) == 1


def test_a_flipped_byte_of_any_bank_file_is_named_with_its_file(good: Path) -> None:
    files = [p for p in good.rglob("*") if p.suffix == ".npy" or p.name in ("identity.json", "manifest.json")]
    assert len(files) >= 7
    for path in files:
        before = path.read_bytes()
        flip(path, int(len(before) * 0.6))
        try:
            named = "\n".join(verify_run(good).problems)
        except CorruptBankError as error:  # a JSON file that cannot be read, or a manifest that denies itself
            named = str(error)
        assert str(path) in named
        path.write_bytes(before)
    assert verify_run(good).problems == []


def test_a_missing_file_is_named(good: Path) -> None:
    files = [p for p in good.rglob("*") if p.suffix == ".npy" or p.name in ("identity.json", "results.json")]
    for path in files:
        before = path.read_bytes()
        path.unlink()
        assert str(path) in "\n".join(verify_run(good).problems)
        path.write_bytes(before)


def test_a_missing_bank_is_named(study: Path) -> None:
    shutil.rmtree(study / "banks" / "width-00006")
    (problem,) = verify_run(study).problems
    assert "cannot be computed again" in problem
    assert "width-00006 holds no bank" in problem


def test_a_changed_request_is_named(study: Path) -> None:
    """The configuration is a claim like any other: results.json must have what run.json asked for."""
    path = study / "results.json"
    results = json.loads(path.read_text())
    results["config"]["seed"] += 1
    path.write_text(json.dumps(results))
    assert verify_run(study).problems == [f"{path}: config.seed is 43, but 42 from run.json"]


def test_an_unfinished_run_is_refused_with_the_remedy(good: Path) -> None:
    next(good.rglob("manifest.json")).unlink()
    with pytest.raises(InputError, match="unfinished bank; run the command that made it again"):
        verify_run(good)


def test_an_unknown_kind_of_run_is_named(study: Path) -> None:
    path = study / "run.json"
    path.write_text(path.read_text().replace("study scaling", "study cooking"))
    with pytest.raises(CorruptBankError, match="unknown kind of run 'study cooking'"):
        verify_run(study)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        verify_run(tmp_path)


@pytest.fixture(
    params=[*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("study", "audit")), "attack"]
)
def any_kind(request: pytest.FixtureRequest, made: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[request.param], tmp_path / "run"))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_every_file_of_a_run_is_covered(any_kind: Path) -> None:
    for path in files_of(any_kind):
        content = path.read_bytes()
        damaged = {"flipped": bytes([*content[:-2], content[-2] ^ 1, content[-1]]), "cut": content[:-3]}
        for harm, bytes_ in damaged.items():
            path.write_bytes(bytes_)
            try:
                problems = verify_run(any_kind).problems
            except CorruptBankError as error:  # of the files that say what the others are
                problems = [str(error)]
            assert problems and path.name in " ".join(problems), (path, harm)
            assert all(len(problem.splitlines()) == 1 for problem in problems)
        path.unlink()
        with contextlib.suppress(LeakscopeError):
            assert verify_run(any_kind).problems, path
        path.write_bytes(content)
    assert verify_run(any_kind).problems == []


def test_writing_the_report_again_hides_no_earlier_damage(made: dict[str, Path], tmp_path: Path) -> None:
    """Else a stranger's change to a table or a picture would get a checksum of its own."""
    folder = Path(shutil.copytree(made["attack"], tmp_path / "run"))
    (folder / "report.md").write_text("replaced")
    submission = next(folder.glob("submission_*.csv"))
    flip(submission, -20)
    rebuild_report(folder)
    problems = verify_run(folder).problems
    assert any(f"{submission.name}: does not match its checksum" in problem for problem in problems)
    assert not any("report.md" in problem for problem in problems)


def test_a_file_without_a_checksum_is_named(any_kind: Path) -> None:
    """Else a file whose checksum was taken out could be changed at will."""
    seal = any_kind / "sha256.json"
    checksums = json.loads(seal.read_text())
    for name in checksums:
        seal.write_text(json.dumps({other: sha for other, sha in checksums.items() if other != name}))
        assert verify_run(any_kind).problems == [f"{any_kind / name}: has no checksum in sha256.json"]


def test_notes_of_the_users_are_named_and_no_problem(any_kind: Path) -> None:
    (any_kind / "notes.txt").write_text("mine")
    verified = verify_run(any_kind)
    assert verified.problems == []
    assert any(what.endswith("files of the run (not checked: notes.txt)") for what in verified.checked)


@pytest.mark.parametrize("name", ["../run.json", "/proc/self/environ", "figures/../../x"])
def test_a_forged_list_of_checksums_reads_nothing_outside(any_kind: Path, name: str) -> None:
    (any_kind / "sha256.json").write_text(json.dumps({name: "0" * 64}))
    assert "names files outside the run folder" in " ".join(verify_run(any_kind).problems)
