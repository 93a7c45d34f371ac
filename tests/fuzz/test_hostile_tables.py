"""Hostile tables, predictions and configs: each of these once ended in a traceback or a warning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from leakscope.audits.config import read_config
from leakscope.data.files import read_table
from leakscope.data.predictions import read_predictions
from leakscope.errors import InputError
from tests.fuzz.hostile_files import FEATURES, LABELS, npy, npz


def test_text_that_is_not_text(tmp_path: Path) -> None:
    for ids in (np.array([b"\xff", b"a", b"b", b"c"]), np.array(["\ud800", "a", "b", "c"])):
        with pytest.raises(InputError, match="array 'ids' holds text that is not Unicode"):
            read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=LABELS, ids=ids))
    beyond = np.array([0x110000, 1, 2, 3], dtype="<u4").tobytes()
    header = "{'descr': '<U1', 'fortran_order': False, 'shape': (4,), }"
    with pytest.raises(InputError, match="not Unicode"):
        read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=LABELS, ids=npy(header, beyond)))


def test_labels_that_no_integer_holds(tmp_path: Path) -> None:
    for labels in (
        np.array([1e300, 0, 1, 1]),
        np.array([0, 1, 2, 60000], "f2"),
        np.array([2**63, 0, 1, 1], "u8"),
    ):
        read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=labels), task="classification")
        with pytest.raises(InputError, match=r"label is outside 0\.\.1"):
            read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=labels))
    with pytest.raises(InputError, match="label 'labels' is NaN, infinite or too large"):
        read_table(npz(tmp_path / "x.npz", features=FEATURES, labels=np.array([1e300, 0.5, 1, 2])))
    with pytest.raises(InputError, match="must be class indices"):
        read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=np.array([np.inf, 0, 1, 1])))


def test_features_without_a_number_and_members_of_bytes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is empty"):
        read_table(npz(tmp_path / "x.npz", features=np.zeros((4, 0)), labels=LABELS))
    with pytest.raises(InputError, match=r"reference_logits have shape \(0, 4, 2\)"):
        none = {"reference_logits": np.zeros((0, 4, 2)), "reference_members": np.zeros((0, 4))}
        read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=LABELS, **none))
    members = np.array([[b"\xff"] * 4])
    with pytest.raises(InputError, match="reference_members has type"):
        others = {"reference_logits": FEATURES[None], "reference_members": members}
        read_predictions(npz(tmp_path / "x.npz", logits=FEATURES, labels=LABELS, **others))


@pytest.mark.parametrize("kind", [pl.Binary, pl.List(pl.Int64), pl.Struct({"a": pl.Int64})])
def test_columns_that_are_no_text(tmp_path: Path, kind: Any) -> None:
    values: dict[Any, Any] = {pl.Binary: b"\xff", pl.List(pl.Int64): [1]}
    column = pl.Series("g", [values.get(kind, {"a": 1})] * 4, dtype=kind)
    pl.DataFrame({"a": [1, 2, 3, 4], "label": [0, 1, 0, 1], "g": column}).write_parquet(
        tmp_path / "x.parquet"
    )
    for given in ({"group_columns": ["g"]}, {"id_column": "g"}, {}):
        try:
            read_table(tmp_path / "x.parquet", "label", **given)  # type: ignore[arg-type]
        except InputError as error:
            assert "'g'" in str(error)


def test_numbers_of_128_bits(tmp_path: Path) -> None:
    rows = [10**30, 1, 2, 3]
    pl.DataFrame({"a": pl.Series(rows, dtype=pl.Int128), "label": [0, 1, 0, 1]}).write_parquet(
        tmp_path / "x.parquet"
    )
    assert read_table(tmp_path / "x.parquet", "label").features[0, 0] == np.float32(1e30)


def test_rows_that_are_only_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"a": np.zeros(5000), "label": np.arange(5000) % 2}).write_parquet(tmp_path / "x.parquet")
    monkeypatch.setattr("leakscope.data.column_file.machine_memory", lambda: 4999)
    with pytest.raises(InputError, match="declares 5,000 rows of 2 columns, more than this machine's memory"):
        read_table(tmp_path / "x.parquet", "label")


def test_a_folder_that_polars_still_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads went on after it had refused a csv, and the temporary folder could not be removed."""
    (tmp_path / "x.csv").write_text('a,label\n1,0\n"')
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    removing = os.rmdir

    def rmdir(path: Any, **given: Any) -> None:
        (tmp_path / Path(path).name / "late").write_bytes(b"")
        removing(path, **given)

    monkeypatch.setattr(os, "rmdir", rmdir)
    with pytest.raises(InputError, match="cannot be read as csv"):
        read_table(tmp_path / "x.csv", "label")
    assert list(tmp_path.glob("*/late")), "nothing was in the way"


def test_messages_are_short_and_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"{'a' * 50_000};\x1b[2J\n1;2\n")
    with pytest.raises(InputError, match="label column 'label' does not exist") as refused:
        read_table(tmp_path / "x.csv", "label")
    assert len(str(refused.value)) < 2100
    assert str(InputError("a\x1b[2J \ud800\nb")) == "a\\x1b[2J \\ud800\nb"


def test_a_config_that_is_too_deep(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("a = " + "[" * 5000)
    with pytest.raises(InputError, match="too deep"):
        read_config(tmp_path / "x.toml")


@pytest.mark.parametrize("shape", [(4, 2), (2, 4, 1, 3), (4, 1, 2, 2), (2, 4), (2,), (), (1, 4, 2)])
def test_answers_of_any_number_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Probabilities of four axes that do not add up to 1 once ended in an IndexError."""
    path = npz(tmp_path / "x.npz", probabilities=np.full((4, 2), 0.5), labels=LABELS,
               reference_probabilities=np.full(shape, 0.3), reference_members=np.zeros((1, 4)))  # fmt: skip
    with pytest.raises(InputError, match="reference_probabilities"):
        read_predictions(path)
