"""An estimator gets the columns of a file as it gets those of a table in memory: untouched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from leakscope.audits.config import parse_config
from leakscope.errors import InputError
from leakscope.frames import delivery
from leakscope.types import Records

CSV = (
    "who;age;income;born;town;flat;outcome\n"
    "a;31;1.200,5;1990-05-01;Ulm;3b;yes\n"
    "b;;900,25;1980-01-31;;7;no\n"
    "c;45;1,5;;Bonn;;no\n"
)


TREE = "estimator = 'sklearn.tree:DecisionTreeClassifier'"


def records(folder: Path, more: str = "", model: str = TREE) -> Records:
    (folder / "people.csv").write_text(CSV)
    text = f"[data]\nfile = 'people.csv'\nlabel = 'outcome'\nid = 'who'\n{more}\n[model]\n{model}\n"
    return parse_config(text, folder / "audit.toml").records(None)


def rows(of: Records) -> Any:
    assert of.frame is not None
    return of.frame.rows()


def test_columns_of_a_csv_arrive_as_pandas_reads_them(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    got = rows(records(tmp_path))
    wanted = pd.read_csv(tmp_path / "people.csv", sep=";", decimal=",", thousands=".", parse_dates=["born"])
    wanted = wanted.drop(columns=["who", "outcome"])
    pd.testing.assert_frame_equal(got, wanted, check_dtype=False)
    assert got["town"].dtype == wanted["town"].dtype and got["income"].dtype == np.float64


def test_a_half_of_them_has_the_same_types(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    of = records(tmp_path)
    assert of.frame is not None
    half = of.frame.rows(np.array([2, 0]))
    pd.testing.assert_frame_equal(half, rows(of).iloc[[2, 0]].reset_index(drop=True))
    taken = of.take(np.array([2, 0]))
    pd.testing.assert_frame_equal(rows(taken), half)
    assert taken.take(np.array([1, 0])).digest == of.take(np.array([0, 2])).digest
    mixed = of.frame.mixed(np.array([1, 2, 0]), np.zeros((3, 5), dtype=np.bool_))
    pd.testing.assert_frame_equal(mixed, rows(of))


def test_without_pandas_they_arrive_in_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "find_spec", lambda name: None)
    got = rows(records(tmp_path))
    assert isinstance(got, pl.DataFrame) and got.columns == ["age", "income", "born", "town", "flat"]
    assert got["income"].to_list() == [1200.5, 900.25, 1.5] and got["town"].to_list() == ["Ulm", None, "Bonn"]


def test_it_is_the_same_run_with_and_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = records(tmp_path).digest
    monkeypatch.setattr(delivery, "find_spec", lambda name: None)
    assert records(tmp_path).digest == first


def test_types_of_a_parquet_file_stay(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    kinds = pl.Series("kind", ["b", "a", None], dtype=pl.Categorical)
    table = pl.DataFrame({"zip": ["01067", "80331", "1"], "kind": kinds, "n": [1, None, 3], "y": [0, 1, 0]})
    table.write_parquet(tmp_path / "people.parquet")
    text = "[data]\nfile = 'people.parquet'\nlabel = 'y'\n[model]\n" + TREE
    got = rows(parse_config(text, tmp_path / "audit.toml").records(None))
    assert got["zip"].tolist() == ["01067", "80331", "1"]
    half = parse_config(text, tmp_path / "audit.toml").records(None).frame
    assert half is not None and half.rows(np.array([0])).dtypes.equals(got.dtypes)
    assert isinstance(got["kind"].dtype, pd.CategoricalDtype) and got["kind"].isna().tolist() == [
        False,
        False,
        True,
    ]


def test_features_and_groups_are_those_that_are_named(tmp_path: Path) -> None:
    chosen = records(tmp_path, "features = ['town', 'age']\ngroups = ['flat']")
    assert list(rows(chosen).columns) == ["town", "age"] and list(chosen.groups) == ["flat"]
    assert list(rows(records(tmp_path, "groups = ['flat', 'born']")).columns) == ["age", "income", "town"]


def test_standardise_encodes_them(tmp_path: Path) -> None:
    encoded = records(tmp_path, "standardise = true")
    assert encoded.frame is not None and encoded.frame.is_encoded and not encoded.frame.is_of_file
    assert "town=Bonn" in encoded.feature_names
    assert records(tmp_path, model="net = 'mlp'").feature_names == encoded.feature_names, "as for networks"


def test_what_can_be_read_in_two_ways_is_refused_for_estimators_too(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text('a,b,y\n"22,100",1,u\n"31,000",2,v\n')
    text = "[data]\nfile = 'people.csv'\nlabel = 'y'\n[model]\n" + TREE
    with pytest.raises(
        InputError, match=r"people.csv: feature 'a' holds numbers with commas.*in two ways in 2 rows"
    ):
        parse_config(text, tmp_path / "audit.toml").records(None)


def test_arrays_are_not_scaled_for_an_estimator(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", features=np.float32([[100], [200], [300]]), labels=[0, 1, 0])
    text = "[data]\nfile = 'rows.npz'\n[model]\n"
    of_tree = parse_config(text + TREE, tmp_path / "a.toml")
    assert of_tree.records(None).features[:, 0].tolist() == [100, 200, 300]
    assert parse_config(text, tmp_path / "a.toml").records(None).features.mean() == pytest.approx(0, abs=1e-6)
