from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from leakscope.errors import InputError
from leakscope.models.given import FittedEstimator, NetWeights, PredictFunction
from leakscope.models.nets import cnn, mlp
from leakscope.single_model.query import RecordFiles, class_names, query_model
from leakscope.types import Records


def records(labels: list[int], names: tuple[str, ...]) -> Records:
    n = len(labels)
    ids = np.array([f"r{i}" for i in range(n)])
    return Records(np.zeros((n, 2), np.float32), np.array(labels), ids, class_names=names)


PUBLIC, PRIVATE = records([0, 1, 2], ("0", "7", "10")), records([1, 0], ("2", "10"))
WORDS = records([0, 1], ("cat", "dog")), records([0, 1], ("ant", "dog"))


def test_whole_numbers_are_the_numbers_of_outputs_even_where_a_file_lacks_some() -> None:
    """Read alone, each file numbers its own classes from 0: labels 0, 7, 10 would become 0, 1, 2."""
    assert class_names(PUBLIC, PRIVATE) == tuple(str(number) for number in range(11))


def test_words_are_numbered_over_both_files() -> None:
    assert class_names(*WORDS) == ("ant", "cat", "dog")


def test_the_models_own_names_come_first() -> None:
    assert class_names(*WORDS, ("dog", "cat", "bee", "ant")) == ("dog", "cat", "bee", "ant")
    assert class_names(*WORDS, ("0", "1", "2")) == ("ant", "cat", "dog")


def test_a_model_may_have_more_outputs_than_the_labels_show() -> None:
    assert class_names(*WORDS, n_classes=4) == ("ant", "cat", "dog", "output 3")
    with pytest.raises(InputError, match="n_classes=2, but the labels need 3 outputs"):
        class_names(*WORDS, n_classes=2)


def save_images(path: Path, n: int, **arrays: Any) -> np.ndarray:
    rng = np.random.default_rng(n)
    images = rng.integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)
    np.savez(path, x=images, y=np.arange(n) % 3, **arrays)
    return images


def test_images_of_an_npz_are_scaled_as_the_user_says(tmp_path: Path) -> None:
    net = cnn((3, 8, 8), 3, channels=2).eval()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    images = save_images(tmp_path / "public.npz", 12, is_member=np.arange(12) % 2)
    save_images(tmp_path / "private.npz", 9, is_member=np.arange(9) % 2)
    model = NetWeights(tmp_path / "net.pt", "cnn", {"channels": 2}, (0.3, 0.3, 0.3), (0.2, 0.2, 0.2), "cpu")
    public, private = query_model(model, RecordFiles(tmp_path / "public.npz", tmp_path / "private.npz"))
    with torch.no_grad():
        expected = net((torch.from_numpy(images).float() / 255 - 0.3) / 0.2).numpy()
    np.testing.assert_allclose(public.logits, expected, atol=1e-5)
    assert public.is_member is not None and list(public.is_member) == [False, True] * 6
    assert len(private) == 9 and list(private.ids[:2]) == ["row-0", "row-1"]


def save_table(path: Path, columns: dict[str, Any]) -> Path:
    pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": [0, 1, 0, 1]} | columns).write_parquet(path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> NetWeights:
    torch.save(mlp((1,), 2, width=3).state_dict(), tmp_path / "net.pt")
    return NetWeights(tmp_path / "net.pt", "mlp", {"width": 3}, device="cpu")


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return save_table(tmp_path / "public.parquet", {"is_member": [True, False, True, False]})


def test_a_hidden_membership_column_is_no_feature(model: NetWeights, public: Path, tmp_path: Path) -> None:
    hidden = {"is_member": pl.Series([None] * 4, dtype=pl.Boolean)}
    known, private = query_model(model, RecordFiles(public, save_table(tmp_path / "private.parquet", hidden)))
    np.testing.assert_array_equal(known.logits, private.logits)
    assert private.is_member is None


def test_labels_of_an_estimator_are_matched_by_name(public: Path, tmp_path: Path) -> None:
    """The private file lacks a class and starts with another one; its labels still mean the same outputs."""
    words = np.array(["ant", "bee", "cat"])
    rng = np.random.default_rng(0)
    x = rng.normal(size=60).astype(np.float32)
    estimator = LogisticRegression().fit(x[:, None], words[np.digitize(x, [-0.5, 0.5])])
    for name, chosen in (("a", ["ant", "bee"]), ("b", ["cat", "bee"])):
        frame = {"x": x[:2], "label": chosen, "is_member": [True, False]}
        pl.DataFrame(frame).write_csv(tmp_path / f"{name}.csv")
    first, second = query_model(
        FittedEstimator(estimator), RecordFiles(tmp_path / "a.csv", tmp_path / "b.csv")
    )
    assert (list(first.labels), list(second.labels)) == ([0, 1], [2, 1])
    assert first.kind == "probabilities"
    np.testing.assert_allclose(np.exp(first.logits), estimator.predict_proba(x[:2, None]), rtol=1e-5)


def test_a_function_gets_the_features(public: Path) -> None:
    model = PredictFunction(lambda x: np.hstack([x, -x]))
    outputs, _ = query_model(model, RecordFiles(public, public))
    np.testing.assert_array_equal(outputs.logits[:, 0], [0, 1, 2, 3])
    assert outputs.kind == "logits"


def test_what_does_not_fit_is_named(model: NetWeights, public: Path, tmp_path: Path) -> None:
    wider = save_table(tmp_path / "wider.parquet", {"z": [0.0] * 4})
    with pytest.raises(InputError, match="does not say who is a member; add is_member"):
        query_model(model, RecordFiles(wider, wider))
    with pytest.raises(InputError, match=r"have shape \(1,\), those of .* \(2,\); both need the same"):
        query_model(model, RecordFiles(public, wider))
    with pytest.raises(InputError, match=r"3.weight is \(2, 3\), the net has \(5, 3\)"):
        query_model(model, RecordFiles(public, public, n_classes=5))
    with pytest.raises(InputError, match="does not exist"):
        query_model(model, RecordFiles(public, tmp_path / "absent.csv"))
