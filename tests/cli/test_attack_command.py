from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import polars as pl
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from leakscope.models.nets import mlp
from leakscope.single_model.ensemble import attackers
from tests.cli.command import Outcome, files_under, run_command

SMALL = (
    attackers.ForestAttacker(n_trees=5),
    attackers.LightGbmAttacker(n_trees=5),
    attackers.MlpAttacker(max_iterations=5),
)


@pytest.fixture(autouse=True)
def quick_attackers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attackers, "ATTACKERS", SMALL)


def save_predictions(path: Path, seed: int, with_members: bool = True, n: int = 160) -> Path:
    rng = np.random.default_rng(seed)
    is_member, labels, logits = rng.permutation(n) < n // 2, rng.integers(0, 3, n), rng.normal(size=(n, 3))
    logits[np.arange(n), labels] += 1 + 2 * is_member
    arrays: dict[str, Any] = {
        "logits": logits,
        "labels": labels,
        "ids": np.array([f"{seed}-{i}" for i in range(n)]),
    }
    np.savez(path, **arrays, **({"is_member": is_member} if with_members else {}))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return (
        save_predictions(tmp_path / "public.npz", 1),
        save_predictions(tmp_path / "private.npz", 2, with_members=False),
    )


def attack_files(files: tuple[Path, Path], *more: str | Path) -> Outcome:
    return run_command("attack", "--public-predictions", files[0], "--private-predictions", files[1], *more)


@pytest.mark.usefixtures("whole_audits")
def test_a_run_leaves_a_submission_and_a_report(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = attack_files(files, "--out", out)
    assert (done.exit_code, done.err) == (0, "")
    assert "Held-out public records" in done.out and "ties" in done.out.lower()
    results = json.loads((out / "results.json").read_text())
    for attacker in ("forest", "lightgbm", "mlp"):  # a file for each, whichever is chosen
        with (out / f"submission_{attacker}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [row["ids"] for row in rows] == [f"2-{i}" for i in range(160)]
        scores = np.load(out / "private" / f"{attacker}.npy")[0]
        np.testing.assert_array_equal([float(row["score"]) for row in rows], scores)
    aucs = {name: one["auc"]["value"] for name, one in results["attackers"].items()}
    assert set(aucs) == {"forest", "lightgbm", "mlp"} and aucs[results["chosen"]] == max(aucs.values())
    assert results["attackers"]["forest"]["auc"]["low"] > 0.5  # the leak was planted
    assert "](figures/roc.png)" in (out / "report.md").read_text()
    assert (out / "figures" / "roc.png").stat().st_size > 5_000


def test_columns_of_saved_predictions_are_named_by_options(tmp_path: Path) -> None:
    """As people have them: one probability, labels in words, membership in the public file alone."""
    rng, n = np.random.default_rng(3), 160
    churned, seen = rng.random(n) < 0.5, rng.permutation(n) < n // 2
    p = np.where(churned, 0.6 + 0.3 * seen, 0.4 - 0.3 * seen)
    who, churn = [f"K{i}" for i in range(n)], np.where(churned, "gone", "here")
    table = pl.DataFrame({"who": who, "churn": churn, "s": p})
    table.with_columns(use=pl.Series(np.where(seen, "train", "test"))).write_csv(tmp_path / "public.csv")
    table.write_csv(tmp_path / "private.csv")
    files = (tmp_path / "public.csv", tmp_path / "private.csv")
    named = ("--label", "churn", "--id", "who", "--prob", "s", "--classes", "gone", "--member", "use")
    done = attack_files(files, "--out", tmp_path / "run", "--attacker", "forest", "--quiet", *named)
    assert (done.exit_code, done.err) == (0, "")
    submission = (tmp_path / "run" / "submission_forest.csv").read_text().splitlines()
    assert submission[1].startswith("K0,") and len(submission) == n + 1
    queried = ("--model", "m.joblib", "--public", files[0], "--private", files[1])
    refused = run_command("attack", *queried, "--prob", "s")
    assert refused.exit_code == 2 and "--prob would do nothing" in refused.err


@pytest.mark.usefixtures("whole_audits")
def test_the_same_run_again_gives_the_same_bytes(files: tuple[Path, Path], tmp_path: Path) -> None:
    for out in ("first", "second"):
        assert attack_files(files, "--out", tmp_path / out, "--quiet", "--attacker", "mlp").out == ""
    assert files_under(tmp_path / "first") == files_under(tmp_path / "second")
    before = files_under(tmp_path / "first")
    assert attack_files(files, "--out", tmp_path / "first", "--quiet", "--attacker", "mlp").exit_code == 0
    assert files_under(tmp_path / "first") == before


def test_another_seed_or_file_is_another_run(files: tuple[Path, Path], tmp_path: Path) -> None:
    common = ("--out", tmp_path / "run", "--attacker", "forest", "--quiet")
    assert attack_files(files, *common).exit_code == 0
    assert attack_files(files, *common, "--seed", "1").exit_code == 2
    save_predictions(files[0], 3)
    again = attack_files(files, *common)
    assert again.exit_code == 2 and "public_sha256" in again.err


def test_verify_recomputes_a_run_and_notices_changes(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    attack_files(files, "--out", out, "--attacker", "forest", "--quiet")
    verified = run_command("verify", out)
    assert verified.exit_code == 0
    assert re.search(
        r"all good \(9 files of the run, [\d,]+ numbers of results.json\)", verified.out
    )  # there is no bank
    submission = out / "submission_forest.csv"
    submission.write_text(submission.read_text().replace("2-0,0", "2-0,1"))
    assert "submission_sha256" in str(run_command("verify", out))
    scores = np.load(out / "validation" / "forest.npy")
    np.save(out / "validation" / "forest.npy", scores[:, ::-1])
    changed = run_command("verify", out)
    assert changed.exit_code != 0 and "attackers.forest.auc" in str(changed)


def test_one_attacker_as_json(files: tuple[Path, Path], tmp_path: Path) -> None:
    done = attack_files(files, "--out", tmp_path / "run", "--attacker", "forest", "--json")
    assert list(json.loads(done.out)["attackers"]) == ["forest"]


def test_private_membership_is_not_used(files: tuple[Path, Path], tmp_path: Path) -> None:
    common = ("--attacker", "forest", "--quiet", "--out")
    attack_files(files, *common, tmp_path / "without")
    save_predictions(files[1], 2, with_members=True)
    attack_files(files, *common, tmp_path / "with")
    assert files_under(tmp_path / "with") == files_under(tmp_path / "without")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--attacker", "tree"), "attacker='tree': choose best or one of forest, lightgbm, mlp"),
        (("--validation-share", "1.5"), "validation_share=1.5: must be between 0 and 1"),
        (("--validation-share", "0.001"), "too few"),
        (("--model", "x.pt"), "exclude each other: give predictions or a model"),
        (("--public-predictions", "nowhere.npz"), "nowhere.npz does not exist"),
    ],
)
def test_mistakes_end_as_one_line_and_write_nothing(
    files: tuple[Path, Path], tmp_path: Path, changes: tuple[str, ...], message: str
) -> None:
    done = attack_files(files, *changes, "--out", tmp_path / "run")
    assert done.exit_code == 2 and message in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_public_predictions_must_say_who_is_a_member(files: tuple[Path, Path], tmp_path: Path) -> None:
    done = attack_files((files[1], files[1]), "--out", tmp_path / "run")
    assert done.exit_code == 2 and "add is_member" in done.err


def test_what_is_missing_is_named() -> None:
    nothing = run_command("attack")
    assert nothing.exit_code == 2 and "--public-predictions and --private-predictions" in nothing.err
    half = run_command("attack", "--model", "x.pt", "--net", "mlp")
    assert half.exit_code == 2 and "--public, --private missing" in half.err
    no_model = run_command("attack", "--public", "a.csv", "--private", "b.csv")
    assert no_model.exit_code == 2 and "--model or --predict missing" in no_model.err


# --- a model and two files of records ---


@pytest.fixture
def model_files(tmp_path: Path) -> list[str | Path]:
    """An untrained net and two csv files whose labels and columns are as a user has them."""
    rng = np.random.default_rng(0)
    torch.save(mlp((4,), 3, width=5).state_dict(), tmp_path / "net.pt")
    for name, n in (("public", 120), ("private", 60)):
        columns: dict[str, Any] = {f"x{i}": rng.normal(size=n) for i in range(4)}
        columns |= {"label": rng.integers(0, 3, n), "id": [f"{name}-{i}" for i in range(n)]}
        columns |= {"is_member": np.arange(n) % 2 == 0} if name == "public" else {}
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    return ["--model", tmp_path / "net.pt", "--public", tmp_path / "public.csv",
            "--private", tmp_path / "private.csv", "--net", "mlp", "--attacker", "forest"]  # fmt: skip


def test_a_net_is_queried_on_two_tables(model_files: list[str | Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run_command("attack", *model_files, "--net-options", '{"width": 5}', "--out", out, "--quiet")
    assert (done.exit_code, done.err) == (0, "")
    lines = (out / "submission_forest.csv").read_text().splitlines()
    assert lines[0] == "ids,score" and lines[1].startswith("private-0,") and len(lines) == 61


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--net-options", '{"width": 7}'], "1.weight is (5, 4), the net has (7, 4)"),
        (["--net-options", "width=5"], "is not JSON"),
        (["--net-options", "[5]"], "must be a JSON object"),
        (["--net", "mpl"], "net='mpl' is unknown"),
        (["--pixel-mean", "0.5"], "--pixel-mean and --pixel-std go together"),
        (["--pixel-mean", "a", "--pixel-std", "1"], "--pixel-mean='a': give numbers"),
        (["--pixel-mean", "0.5", "--pixel-std", "1"], "are for uint8 images"),
        (["--device", "tpu"], "device='tpu' is unknown"),
        (["--predict", "a:b"], "--model and --predict exclude each other"),
        (["--label", "x"], "label column 'x' does not exist"),
    ],
)
def test_mistakes_about_the_model(
    model_files: list[str | Path], tmp_path: Path, changes: list[str], message: str
) -> None:
    options = ["--net-options", '{"width": 5}'] if "--net-options" not in changes else []
    done = run_command("attack", *model_files, *options, *changes, "--out", tmp_path / "run")
    assert done.exit_code == 2 and message in done.err and not (tmp_path / "run").exists()


@pytest.fixture
def record_files(tmp_path: Path) -> list[str | Path]:
    """Two csv files whose labels are words, and the estimator that was fitted on the public members."""
    rng = np.random.default_rng(1)
    for name, n in (("public", 120), ("private", 60)):
        x = rng.normal(size=(n, 3))
        columns: dict[str, Any] = {f"x{i}": x[:, i] for i in range(3)}
        columns |= {"label": np.where(x[:, 0] + rng.normal(size=n) > 0, "yes", "no")}
        columns |= {"is_member": np.arange(n) % 2 == 0} if name == "public" else {}
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    members = pl.read_csv(tmp_path / "public.csv").filter(pl.col("is_member"))
    features = members.select("x0", "x1", "x2").to_numpy().astype(np.float32)
    forest = RandomForestClassifier(10, random_state=0).fit(features, members["label"].to_numpy())
    joblib.dump(forest, tmp_path / "forest.joblib")
    return ["--public", tmp_path / "public.csv", "--private", tmp_path / "private.csv",
            "--attacker", "forest", "--out", tmp_path / "run"]  # fmt: skip


def test_an_estimator_is_attacked_if_the_user_trusts_the_file(
    record_files: list[str | Path], tmp_path: Path
) -> None:
    options = ["--model", tmp_path / "forest.joblib", *record_files]
    refused = run_command("attack", *options)
    assert refused.exit_code == 2 and "runs whatever code is in it" in refused.err
    assert "allow it with --trust, or save" in " ".join(refused.err.split())
    assert not (tmp_path / "run").exists()
    assert run_command("attack", *options, "--trust", "--quiet").exit_code == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["model"]["estimator"] == "RandomForestClassifier"
    assert results["public"]["kind"] == "probabilities"
    assert results["attackers"]["forest"]["auc"]["value"] > 0.7, "a forest of 10 trees overfits"


@pytest.mark.slow
def test_an_estimator_saved_by_skops(record_files: list[str | Path], tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    skops.dump(joblib.load(tmp_path / "forest.joblib"), tmp_path / "forest.skops")
    options = ["--model", tmp_path / "forest.skops", *record_files, "--quiet"]
    assert run_command("attack", *options, "--trust").exit_code == 0


OWN_MODULE = """
import joblib
forest = joblib.load({path!r})
def predict(features):
    return forest.predict_proba(features)
"""


def test_a_function_is_attacked_like_the_model_behind_it(
    record_files: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = OWN_MODULE.format(path=str(tmp_path / "forest.joblib"))
    (tmp_path / "own_service.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert run_command("attack", "--predict", "own_service:predict", *record_files, "--quiet").exit_code == 0
    queried = (tmp_path / "run" / "submission_forest.csv").read_text()
    options = ["--model", tmp_path / "forest.joblib", "--trust", *record_files[:-1], tmp_path / "again"]
    assert run_command("attack", *options, "--quiet").exit_code == 0
    assert (tmp_path / "again" / "submission_forest.csv").read_text() == queried
    missing = run_command("attack", "--predict", "own_service:nothing", *record_files[:-1], tmp_path / "x")
    assert missing.exit_code == 2 and "predict='own_service:nothing' cannot be imported" in missing.err
