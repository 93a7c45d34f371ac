"""Folders of npy files: what is read, what is refused, and that features stay on disk up to the verdict."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.array_types import AnyArray
from leakscope.audits.config import read_config
from leakscope.audits.run import audit
from leakscope.data.files import read_table
from leakscope.disk import mmap_rows as pages
from leakscope.errors import InputError
from leakscope.recipe import Recipe
from leakscope.train import perceptrons
from leakscope.types import Records

RNG = np.random.default_rng(2)
FEATURES = RNG.normal(size=(40, 200)).astype(np.float32)
LABELS = np.array(["ill", "well"] * 20)


def folder_of(root: Path, **arrays: AnyArray | None) -> Path:
    folder = root / "patients"
    folder.mkdir(exist_ok=True)
    for name, array in {"features": FEATURES, "labels": LABELS, **arrays}.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array, allow_pickle=True)
    return folder


def test_arrays_take_their_roles(tmp_path: Path) -> None:
    ids, region = np.array([f"p{i}" for i in range(40)]), np.array(["north", "south"] * 20)
    found = read_table(folder_of(tmp_path, ids=ids, group_region=region, group_age=np.arange(40) // 10))
    assert found.name == "patients"
    assert found.class_names == ("ill", "well")
    np.testing.assert_array_equal(found.features, FEATURES)
    assert found.ids.tolist() == ids.tolist()
    assert list(found.groups) == ["age", "region"]
    assert found.groups["age"][-1] == "3"
    assert pages.is_mapped(found.features)
    some = read_table(tmp_path / "patients", group_columns=["region"])
    assert list(some.groups) == ["region"]


def test_names_and_task_may_be_given(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, labels=None, dose=np.arange(40.0), person=np.arange(40))
    found = read_table(folder, "dose", "person", task="regression")
    assert found.labels.dtype == np.float32
    assert found.ids[39] == "39"
    assert read_table(folder, "dose").ids[1] == "row-1"


def test_images_stay_bytes(tmp_path: Path) -> None:
    grey = RNG.integers(0, 256, (40, 5, 4), dtype=np.uint8)
    found = read_table(folder_of(tmp_path, features=grey))
    assert found.features.shape == (40, 1, 5, 4)
    assert found.features.dtype == np.uint8
    assert pages.is_mapped(found.features)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "float64": ({"features": FEATURES.astype(np.float64)}, r"holds float64 \(40, 200\).*so save float32"),
    "bytes in a table": ({"features": np.zeros((40, 3), np.uint8)}, r"holds uint8 \(40, 3\)"),
    "channels last": ({"features": np.zeros((40, 8, 8, 3), np.uint8)}, "looks channels-last"),
    "Fortran order": ({"features": np.asfortranarray(FEATURES)}, "Fortran order.*ascontiguousarray"),
    "no number": ({"features": FEATURES[:, :0]}, "is empty"),
    "text": ({"features": LABELS}, "holds <U4"),
    "objects": ({"features": np.array([[object()]] * 40)}, r"features\.npy holds Python objects"),
    "other lengths": ({"labels": LABELS[:39]}, "it has: features 40, labels 39"),
    "not finite": ({"features": np.where(FEATURES > 2, np.nan, FEATURES)}, "NaN or infinite features"),
    "no labels": ({"labels": None}, "has no array of labels, labels or y; there are: features"),
    "no features": ({"features": None}, "has no array of features, features or x; there are: labels"),
    "ids twice": ({"ids": np.zeros(40, np.int64)}, "'ids' is not unique"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_one_line_that_names_it(tmp_path: Path, name: str) -> None:
    arrays, said = REFUSED[name]
    with pytest.raises(InputError, match=said) as error:
        read_table(folder_of(tmp_path, **arrays))
    assert str(error.value).startswith(f"{tmp_path / 'patients'}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given_names", "said"),
    [
        ({"label": "../labels"}, "label array '../labels' does not exist"),
        ({"id_column": "idz"}, "id array 'idz' does not exist"),
        ({"group_columns": ["town"]}, "group array 'town' does not exist"),
        ({"feature_columns": ["a"]}, "feature_columns is for csv and parquet"),
        ({"task": "guess"}, "task='guess' must be one of"),
    ],
)
def test_a_wrong_name_is_told(tmp_path: Path, given_names: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_table(folder_of(tmp_path), **given_names)


@given(st.integers(0, 400), st.integers(1, 255), st.integers(0, 400))
@settings(max_examples=80)
def test_a_damaged_file_is_read_or_refused(at: int, flip: int, cut: int) -> None:
    """Bytes of the header changed, the end cut off: never anything but one of our own errors."""
    stream = io.BytesIO()
    np.save(stream, np.arange(24, dtype=np.float32).reshape(12, 2))
    content = bytearray(stream.getvalue())
    content[at % len(content)] ^= flip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "labels.npy", np.arange(12) % 2)
        (folder / "features.npy").write_bytes(content[: max(0, len(content) - cut % 90)])
        try:
            assert len(read_table(folder)) == 12
        except InputError as error:
            assert "\n" not in str(error)


def test_a_folder_is_not_standardised_and_saying_so_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path)
    config = tmp_path / "audit.toml"
    config.write_text('[data]\nfile = "patients"\n')
    assert pages.is_mapped(read_config(config).records(None).features)
    config.write_text('[data]\nfile = "patients"\nstandardise = true\n')
    with pytest.raises(InputError, match="standardise=true is for tables"):
        read_config(config).records(None)


@pytest.mark.slow
@pytest.mark.parametrize("most_products", [perceptrons.MOST_PRODUCTS, 0])
def test_an_audit_of_features_on_disk_is_that_of_the_same_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_products: float
) -> None:
    monkeypatch.setattr(perceptrons, "MOST_PRODUCTS", most_products)  # 0: torch trains, block by block
    on_disk = read_table(folder_of(tmp_path))
    in_memory = Records(
        FEATURES.copy(), on_disk.labels, on_disk.ids, "patients", class_names=on_disk.class_names
    )
    recipe = Recipe(net="linear", epochs=3, batch_size=8)
    options: dict[str, Any] = {"models": 4, "attacks": ("loss",), "fpr": (0.1,), "device": "cpu"}
    audit(in_memory, recipe, tmp_path / "in memory", **options)
    monkeypatch.setattr(pages, "BLOCK_BYTES", 3000)
    audit(on_disk, recipe, tmp_path / "on disk", **options)
    for file in ("results.json", "identity.json", "signals/loss.npy", "facts.parquet", "previews.npz"):
        assert (tmp_path / "on disk" / file).read_bytes() == (tmp_path / "in memory" / file).read_bytes()
