from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from leakscope.errors import InputError
from leakscope.models.cnn import cnn
from leakscope.models.mlp import mlp
from leakscope.models.weights import PixelScaling
from leakscope.single_model.given_model import GivenModel, ask_given_model, output_numbers
from leakscope.types import Records


def records(labels: list[int], class_names: tuple[str, ...]) -> Records:
    n = len(labels)
    ids = np.array([f"r{i}" for i in range(n)])
    return Records(np.zeros((n, 2), np.float32), np.array(labels), ids, class_names=class_names)


def test_whole_numbers_are_the_outputs_numbers_though_a_file_lacks_some() -> None:
    """Read alone, each file numbers its own classes from 0: labels 0, 7, 10 would become 0, 1, 2."""
    public, private = records([0, 1, 2], ("0", "7", "10")), records([1, 0], ("2", "10"))
    (public_labels, private_labels), n_outputs = output_numbers(public, private)
    assert list(public_labels) == [0, 7, 10] and list(private_labels) == [10, 2] and n_outputs == 11


def test_words_are_numbered_over_both_files() -> None:
    public, private = records([0, 1], ("cat", "dog")), records([0, 1], ("ant", "dog"))
    (public_labels, private_labels), n_outputs = output_numbers(public, private)
    assert list(public_labels) == [1, 2] and list(private_labels) == [0, 2] and n_outputs == 3


def save_images(path: Path, n: int, **arrays: Any) -> np.ndarray:
    rng = np.random.default_rng(n)
    images = rng.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)
    np.savez(path, x=images, y=np.arange(n) % 3, **arrays)
    return images


def test_images_of_an_npz_are_fed_as_the_user_says(tmp_path: Path) -> None:
    net = cnn((3, 8, 8), 3, channels=2).eval()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    images = save_images(tmp_path / "public.npz", 12, is_member=np.arange(12) % 2)
    save_images(tmp_path / "private.npz", 9, is_member=np.arange(9) % 2)
    scaling = PixelScaling((0.3, 0.3, 0.3), (0.2, 0.2, 0.2))
    model = GivenModel(tmp_path / "net.pt", "cnn", {"channels": 2}, scaling)
    public, private = ask_given_model(model, tmp_path / "public.npz", tmp_path / "private.npz")
    with torch.no_grad():
        expected = net((torch.from_numpy(images).float() / 255 - 0.3) / 0.2).numpy()
    np.testing.assert_allclose(public.logits, expected, atol=1e-5)
    assert public.is_member is not None and list(public.is_member) == [False, True] * 6
    assert len(private) == 9 and list(private.ids[:2]) == ["row-0", "row-1"]


def save_table(path: Path, columns: dict[str, Any]) -> Path:
    pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": [0, 1, 0, 1]} | columns).write_parquet(path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> GivenModel:
    torch.save(mlp((1,), 2, width=3).state_dict(), tmp_path / "net.pt")
    return GivenModel(tmp_path / "net.pt", "mlp", {"width": 3})


def test_a_hidden_membership_column_is_no_feature(model: GivenModel, tmp_path: Path) -> None:
    public = save_table(tmp_path / "public.parquet", {"is_member": [True, False, True, False]})
    private = save_table(tmp_path / "private.parquet", {"is_member": pl.Series([None] * 4, dtype=pl.Boolean)})
    answers = ask_given_model(model, public, private)
    np.testing.assert_array_equal(answers.public.logits, answers.private.logits)
    assert answers.private.is_member is None


def test_what_does_not_fit_is_named(model: GivenModel, tmp_path: Path) -> None:
    public = save_table(tmp_path / "public.parquet", {"is_member": [True, False, True, False]})
    wider = save_table(tmp_path / "wider.parquet", {"z": [0.0] * 4})
    with pytest.raises(InputError, match="does not say who was trained on; add is_member"):
        ask_given_model(model, wider, wider)
    with pytest.raises(InputError, match=r"have shape \(1,\), those of .* \(2,\); both need the same"):
        ask_given_model(model, public, wider)
    with pytest.raises(InputError, match=r"3.weight is \(2, 3\), the net has \(5, 3\)"):
        ask_given_model(model, public, public, n_classes=5)
    with pytest.raises(InputError, match="is not there"):
        ask_given_model(model, public, tmp_path / "absent.csv")
