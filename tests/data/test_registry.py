"""The contract of every dataset: what the catalogue says is what the loader gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leakscope.data.catalogue import DATASETS, Dataset
from leakscope.data.registry import dataset, dataset_names, load
from leakscope.errors import DataMissingError, InputError
from leakscope.types import Records
from tests.published_data import root_with

CASES = [
    pytest.param(entry, id=entry.name, marks=[pytest.mark.slow] if entry.name == "cifar10" else [])
    for entry in DATASETS
]


@pytest.mark.parametrize("entry", CASES)
def test_records_are_as_registered(entry: Dataset) -> None:
    if entry.name == "letters":
        pytest.importorskip("tokenizers", reason="letters need the package tokenizers")
    records = load(entry.name, root_with(entry.name))
    assert len(records) == entry.n_records
    assert records.name == entry.name
    assert records.features.shape[1:] == entry.shape
    plain = np.int32 if records.is_text else np.float32
    assert records.features.dtype == (np.uint8 if len(entry.shape) == 3 else plain)
    assert records.n_classes == entry.n_classes
    np.testing.assert_array_equal(np.unique(records.labels), np.arange(entry.n_classes))
    assert len(set(records.ids)) == entry.n_records


@pytest.mark.parametrize("entry", [case for case in CASES if case.values[0].files])
def test_missing_files_end_as_one_line_with_a_remedy(entry: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError) as caught:
        load(entry.name, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(file.name in message for file in entry.files if file.required)
    assert str(tmp_path / entry.folder) in message
    assert f"leakscope data fetch {entry.name}" in message and "--data-dir" in message


def test_names_are_unique_and_every_entry_is_complete() -> None:
    assert len(set(dataset_names())) == len(DATASETS)
    for entry in DATASETS:
        assert bool(entry.files) == bool(entry.folder) == bool(entry.mirrors or entry.archive)
        assert all(len(file.checksum) in (32, 64) and file.n_bytes > 0 for file in entry.files)
        assert all(address.endswith("/") for address in entry.mirrors)
        assert entry.summary and entry.licence and entry.source


def test_options_reach_the_loader() -> None:
    assert len(load("gaussian", n_samples=60, seed=3)) == 60


@pytest.mark.parametrize(("name", "takes"), [("gaussian", "it takes seed"), ("digits", "it takes none")])
def test_an_unknown_option_is_named(name: str, takes: str) -> None:
    with pytest.raises(InputError, match=f"{name}: unknown option n_sample; {takes}"):
        load(name, n_sample=3)


def test_an_unknown_name_lists_the_known_and_the_closest() -> None:
    with pytest.raises(
        InputError, match=r"unknown dataset 'CIFAR-10'; did you mean 'cifar10'\? \(known: gaussian"
    ):
        dataset("CIFAR-10")
    with pytest.raises(InputError, match=r"unknown dataset 'zzz' \(known"):
        load("zzz")


def test_knowing_the_datasets_imports_nothing_heavy() -> None:
    code = (
        "import sys, leakscope.data.registry as r; r.dataset_names(); "
        "print(*sorted({'torch', 'polars', 'sklearn', 'scipy', 'urllib.request'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == ""


def few_people(n_records: int = 6, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    return Records(
        rng.normal(size=(n_records, 2)).astype(np.float32),
        np.arange(n_records) % 2,
        np.array([f"person-{i}" for i in range(n_records)]),
        "few people",
        class_names=("no", "yes"),
    )


def no_records() -> list[int]:
    return [1, 2, 3]


def test_a_function_of_your_own_is_a_dataset() -> None:
    records = load(f"{__name__}:few_people", n_records=8, seed=1)
    assert (records.name, len(records)) == ("few people", 8)
    assert records.digest == few_people(8, 1).digest


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("no_such_module:people", {}, "dataset='no_such_module:people' cannot be imported"),
        (f"{__name__}:absent", {}, "cannot be imported .*has no attribute 'absent'"),
        (f"{__name__}:CASES", {}, "CASES' is list, not a function"),
        (f"{__name__}:few_people", {"size": 3}, "got an unexpected keyword argument 'size'"),
        (f"{__name__}:no_records", {}, r"returned list; return leakscope.Records\("),
    ],
)
def test_a_mistake_in_a_dataset_of_your_own_is_one_line(
    name: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
