"""An audit whose arrays all lie on disk, walked over in small blocks, gives the verdict of one in memory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import leakscope
from leakscope.data import column_file
from leakscope.data.digits import digits
from leakscope.data.files import read_table
from leakscope.data.predictions import read_predictions
from leakscope.disk import mmap_rows, scratch
from leakscope.evaluate import judge
from leakscope.recipe import Recipe

pytestmark = pytest.mark.slow


def write_answers(path: Path, n: int, n_models: int) -> None:
    """Two classes; hard records are remembered."""
    rng = np.random.default_rng(0)
    label, ease = rng.integers(0, 2, n), rng.normal(1, 2, n)
    columns: dict[str, Any] = {"id": [f"p{i}" for i in range(n)], "label": label, "town": np.arange(n) % 3}
    for model in range(n_models):
        members = rng.random(n) < 0.5
        log_odds = ease + rng.normal(size=n) + 1.5 * members
        signed, prefix = np.where(label, log_odds, -log_odds), f"reference_{model - 1}_" if model else ""
        columns |= {f"{prefix}logit_0": -signed / 2, f"{prefix}logit_1": signed / 2}
        columns[f"{prefix}member" if model else "is_member"] = members
    frame = pl.DataFrame(columns).with_columns(pl.col("town").cast(pl.String))
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is large lies on disk, and blocks are tiny."""
    monkeypatch.setattr(scratch, "_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(scratch, "RECORDS_AT_ONCE", 37)
    monkeypatch.setattr(scratch, "_BLOCKS_AT_ONCE", 3)
    monkeypatch.setattr(mmap_rows, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(column_file, "_READ_AT_ONCE", 5000)


def equal(first: Any, second: Any, where: str = "") -> None:
    """Raises unless two results are the same up to the last digits."""
    if isinstance(first, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            equal(first[key], second[key], f"{where}.{key}")
    elif isinstance(first, list):
        assert len(first) == len(second), where
        for at, (one, other) in enumerate(zip(first, second, strict=True)):
            equal(one, other, f"{where}[{at}]")
    elif isinstance(first, float):
        assert math.isclose(first, second, rel_tol=1e-7, abs_tol=1e-9), f"{where}: {first} and {second}"
    else:
        assert first == second, where


def results(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_saved_predictions(suffix: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / f"answers.{suffix}"
    write_answers(path, 500, 6)
    leakscope.audit(leakscope.SavedPredictions(path), out=tmp_path / "whole")
    request.getfixturevalue("small_pieces")
    read = read_predictions(path)
    assert isinstance(read.logits, np.memmap) and isinstance(read.reference_logits, np.memmap)
    leakscope.audit(leakscope.SavedPredictions(path), out=tmp_path / "pieces")
    equal(results(tmp_path / "pieces"), results(tmp_path / "whole"))
    whole, pieces = (pl.read_parquet(tmp_path / run / "records.parquet") for run in ("whole", "pieces"))
    assert whole.select(pl.col(pl.String)).equals(pieces.select(pl.col(pl.String)))
    for name in whole.select(pl.col(pl.Float64)).columns:
        # Answers are float32, and the last of a block's may be rounded otherwise than among others.
        np.testing.assert_allclose(pieces[name], whole[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("share_wrong", [0.0, 0.6])
def test_a_wrong_member_list_shows_in_some_of_the_records(
    share_wrong: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers.parquet"
    write_answers(path, 6000, 10)
    members = pl.read_parquet(path)["is_member"].to_numpy()
    wrong = np.random.default_rng(1).random(len(members)) < share_wrong
    stated = np.where(wrong, np.random.default_rng(2).permutation(members), members)
    pl.read_parquet(path).with_columns(is_member=stated).write_parquet(path)
    monkeypatch.setattr(judge, "_CHECKED_RECORDS", 3000)
    predictions = leakscope.SavedPredictions(path)
    verdict = leakscope.audit(predictions, out=tmp_path / "run", attacks=("eb_lira",))
    (status,) = [check.status for check in verdict.results.hygiene if check.name == "members"]
    assert (status == "ok") == (share_wrong == 0)


@pytest.mark.slow
def test_a_trained_population(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    records = digits().take(np.arange(150))
    recipe = Recipe(net="linear", epochs=3)
    attacks = ("correctness", "loss", "population", "rmia", "lira", "reference", "calibrated", "eb_lira")
    leakscope.audit(records, recipe, tmp_path / "whole", models=8, attacks=attacks)
    request.getfixturevalue("small_pieces")
    leakscope.audit(records, recipe, tmp_path / "pieces", models=8, attacks=attacks)
    equal(results(tmp_path / "pieces"), results(tmp_path / "whole"))


def test_a_table_of_columns(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "people.csv"
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.normal():.3f},{rng.choice(['Rome', 'Paris', 'Oslo'])},{i % 2 == 0},{i % 3}" for i in range(500)
    ]
    path.write_text("\n".join(["age,city,ok,outcome", *lines]))
    whole = read_table(path, "outcome", group_columns=("city",))
    request.getfixturevalue("small_pieces")
    pieces = read_table(path, "outcome", group_columns=("city",))
    assert isinstance(pieces.features, np.memmap)
    assert (pieces.digest, pieces.feature_names) == (whole.digest, whole.feature_names)


MEASURED = """
import sys
from leakscope.disk import scratch
scratch._IN_MEMORY_BYTES, scratch.RECORDS_AT_ONCE, scratch._THREADS = 1_000_000, 2048, 1
import leakscope
from leakscope.disk import mmap_rows
from leakscope.data import column_file
from leakscope.audits.report import page_records
page_records._MOST_ROWS = 1000
mmap_rows.BLOCK_BYTES = column_file._READ_AT_ONCE = 1_000_000
leakscope.audit(leakscope.SavedPredictions(sys.argv[1]), out=sys.argv[2], attacks=("loss", "eb_lira"))
# Not getrusage: its maximum also counts the process that started this one.
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts resident memory in kilobytes, as Linux does")
def test_memory_grows_by_vectors_of_records_not_by_models_times_records() -> None:
    """Answers, design and one score of 40 models are 40 x (8 + 9 + 1 + 8) = 1,040 bytes a record together.

    None of it is held; ids, labels, bits, a target's scores in order and the tables are: about 430 measured.
    With one thread: several hold a target's scores each, more or less of them at a time on a busy machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        peaks, sizes = [], (40_000, 200_000)
        for n in sizes:
            path = Path(folder) / f"{n}.parquet"
            write_answers(path, n, 40)
            command = [sys.executable, "-c", MEASURED, str(path), str(Path(folder) / str(n))]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            peaks.append(int(done.stdout))
    assert (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]) < 700, peaks
