"""Given models of every kind: how they are queried, what they return, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from torch import nn

from leakscope.errors import InputError
from leakscope.models.given import BATCH_SIZE, FittedEstimator, NetWeights, PredictFunction, model_from_file
from leakscope.models.nets import mlp

CLASSES = ("0", "1", "2")
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 6)).astype(np.float32)
LABELS = np.arange(40) % 3


# --- networks ---


@pytest.fixture
def saved_mlp(tmp_path: Path) -> NetWeights:
    torch.save(mlp((6,), 3, width=5).state_dict(), tmp_path / "net.pt")
    return NetWeights(tmp_path / "net.pt", "mlp", {"width": 5}, device="cpu")


def flat(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """A net without weights whose outputs are its inputs."""
    return nn.Flatten()


FLAT = f"{__name__}:flat"


@pytest.fixture
def no_weights(tmp_path: Path) -> Path:
    torch.save({}, tmp_path / "empty.pt")
    return tmp_path / "empty.pt"


def test_a_net_is_queried_in_batches(saved_mlp: NetWeights) -> None:
    features = RNG.normal(size=(BATCH_SIZE + 7, 6)).astype(np.float32)
    net = mlp((6,), 3, width=5).eval()
    net.load_state_dict(torch.load(saved_mlp.weights))
    with torch.no_grad():
        expected = net(torch.from_numpy(features)).numpy()
    logits, kind = saved_mlp.outputs(features, CLASSES)
    assert (kind, logits.dtype) == ("logits", np.float32)
    np.testing.assert_allclose(logits, expected, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_computes_the_same(saved_mlp: NetWeights) -> None:
    on_gpu = NetWeights(saved_mlp.weights, "mlp", {"width": 5}, device="cuda")
    expected = saved_mlp.outputs(FEATURES, CLASSES).logits
    np.testing.assert_allclose(on_gpu.outputs(FEATURES, CLASSES).logits, expected, atol=1e-5)


def test_images_are_scaled_as_the_user_says(no_weights: Path) -> None:
    pixels = np.array([[[[0, 255]], [[51, 0]]]], dtype=np.uint8)  # (1, 2, 1, 2)
    classes = ("a", "b", "c", "d")
    plain = NetWeights(no_weights, FLAT, device="cpu")
    np.testing.assert_allclose(plain.outputs(pixels, classes).logits, [[0, 1, 0.2, 0]], atol=1e-6)
    scaled = NetWeights(no_weights, FLAT, {}, (0.5, 0.2), (0.5, 0.1), "cpu")
    np.testing.assert_allclose(scaled.outputs(pixels, classes).logits, [[-1, 1, 0, -2]], atol=1e-6)
    with pytest.raises(InputError, match="are for uint8 images"):
        scaled.outputs(pixels.astype(np.float32), classes)
    with pytest.raises(InputError, match="pixel_mean has 3 values but images have 2 channels"):
        NetWeights(no_weights, FLAT, {}, (0, 0, 0), (1, 1, 1), "cpu").outputs(pixels, classes)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.5,), (0.0,), "every std above 0"),
        ((0.5,), (1.0, 1.0), "one per channel"),
        ((0.5,), None, "give both or neither"),
    ],
)
def test_pixel_statistics_that_cannot_be(mean: Any, std: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NetWeights(Path("x.pt"), "cnn", {}, mean, std)


def test_records_the_net_cannot_take(saved_mlp: NetWeights, no_weights: Path) -> None:
    with pytest.raises(InputError, match=r"1.weight is \(5, 6\), the net has \(5, 7\)"):
        saved_mlp.outputs(np.zeros((2, 7), np.float32), CLASSES)
    with pytest.raises(InputError, match=r"returned outputs of shape \(2, 4\), expected \(2, 3\)"):
        NetWeights(no_weights, FLAT, device="cpu").outputs(np.zeros((2, 4), np.float32), CLASSES)


@pytest.mark.parametrize("device", ["tpu", "cuda:99"])
def test_devices_that_are_not_there(saved_mlp: NetWeights, device: str) -> None:
    with pytest.raises(InputError, match=f"device='{device}'"):
        NetWeights(saved_mlp.weights, "mlp", {"width": 5}, device=device).outputs(FEATURES, CLASSES)


# --- estimators ---


@pytest.fixture(scope="module")
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(10, random_state=0).fit(FEATURES, LABELS)


def saved_as(path: Path, estimator: Any) -> Path:
    if path.suffix == ".skops":
        pytest.importorskip("skops.io").dump(estimator, path)
    else:
        joblib.dump(estimator, path)
    return path


def test_an_estimators_outputs_are_finite_logs_of_its_probabilities(forest: RandomForestClassifier) -> None:
    logits, kind = FittedEstimator(forest).outputs(FEATURES, CLASSES)
    expected = forest.predict_proba(FEATURES)
    assert (expected == 0).any() and np.isfinite(logits).all()
    assert (kind, logits.dtype) == ("probabilities", np.float32)
    np.testing.assert_allclose(np.exp(logits)[expected > 0], expected[expected > 0], rtol=1e-6)


@pytest.mark.parametrize("name", ["x.joblib", "x.pkl", "x.skops"])
def test_a_trusted_file_gives_what_the_estimator_gives(
    tmp_path: Path, forest: RandomForestClassifier, name: str
) -> None:
    given = FittedEstimator(saved_as(tmp_path / name, forest), trust=True)
    np.testing.assert_array_equal(
        given.outputs(FEATURES, CLASSES).logits, FittedEstimator(forest).outputs(FEATURES, CLASSES).logits
    )


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code ran",)


@pytest.mark.parametrize("suffix", [".joblib", ".pkl", ".pickle"])
def test_a_pickle_is_not_loaded_without_trust(tmp_path: Path, capsys: Any, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(pickle.dumps(Malicious()))
    for trust in (False, ("sklearn.tree._tree.Tree",)):
        with pytest.raises(
            InputError, match=r"runs whatever code is in it; .* allow it with trust=True, or save"
        ):
            FittedEstimator(path, trust).outputs(FEATURES, CLASSES)
    assert "code ran" not in capsys.readouterr().out


def test_types_skops_does_not_trust_are_named(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    plain = saved_as(tmp_path / "plain.skops", LogisticRegression().fit(FEATURES, LABELS))
    assert FittedEstimator(plain).outputs(FEATURES, CLASSES).logits.shape == (40, 3)
    own = saved_as(tmp_path / "own.skops", OwnClassifier().fit(FEATURES, LABELS))
    name = f"{__name__}.OwnClassifier"
    with pytest.raises(
        InputError, match=f"does not trust: {name}; .* allow them with trust=True, or name these"
    ):
        FittedEstimator(own).outputs(FEATURES, CLASSES)
    with pytest.raises(InputError, match=f"does not trust: {name};"):
        FittedEstimator(own, ("another.Type",)).outputs(FEATURES, CLASSES)
    assert FittedEstimator(own, (name,)).outputs(FEATURES, CLASSES).logits.shape == (40, 3)


class OwnClassifier(LogisticRegression):  # type: ignore[misc]
    pass


@pytest.mark.parametrize("name", ["x.joblib", "x.pkl", "x.skops"])
@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04broken", b"\x80\x04."])
def test_damaged_estimators_end_as_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    if name.endswith(".skops"):
        pytest.importorskip("skops")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="cannot be") as caught:
        FittedEstimator(tmp_path / name, trust=True).outputs(FEATURES, CLASSES)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_fitted_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="LinearSVC, which has no predict_proba"):
        FittedEstimator(LinearSVC().fit(FEATURES, LABELS)).outputs(FEATURES, CLASSES)
    with pytest.raises(InputError, match="LogisticRegression, which is not fitted"):
        FittedEstimator(LogisticRegression()).outputs(FEATURES, CLASSES)
    with pytest.raises(InputError, match="does not exist"):
        FittedEstimator(tmp_path / "absent.skops").outputs(FEATURES, CLASSES)
    with pytest.raises(InputError, match="cannot take records of 5 features"):
        FittedEstimator(LogisticRegression().fit(FEATURES, LABELS)).outputs(FEATURES[:, :5], CLASSES)


def test_columns_are_matched_to_classes_by_name(forest: RandomForestClassifier) -> None:
    names = np.array(["cat", "dog", "ant"])
    named = FittedEstimator(RandomForestClassifier(10, random_state=0).fit(FEATURES, names[LABELS]))
    assert named.class_names == ("ant", "cat", "dog")
    in_order = named.outputs(FEATURES, ("ant", "cat", "dog")).logits
    np.testing.assert_array_equal(named.outputs(FEATURES, tuple(names)).logits, in_order[:, [1, 2, 0]])
    wider = named.outputs(FEATURES, ("ant", "bee", "cat", "dog")).logits
    assert (wider[:, 1] == wider.min()).all(), "a class the estimator never saw"
    numbered = FittedEstimator(forest)  # labels were encoded before it was fitted
    np.testing.assert_array_equal(
        numbered.outputs(FEATURES, ("ant", "cat", "dog")).logits, numbered.outputs(FEATURES, CLASSES).logits
    )
    with pytest.raises(InputError, match="of which the records do not have dog"):
        named.outputs(FEATURES, ("ant", "cat"))


# --- functions ---


def softmax(features: Any) -> Any:
    return torch.from_numpy(features[:, :3]).softmax(-1)


def test_probabilities_are_recognized_by_their_sums() -> None:
    logits, kind = PredictFunction(softmax).outputs(FEATURES, CLASSES)
    assert (kind, logits.dtype) == ("probabilities", np.float32)
    np.testing.assert_allclose(np.exp(logits), softmax(FEATURES).numpy(), rtol=1e-5)
    logits, kind = PredictFunction(lambda x: x[:, :3]).outputs(FEATURES, CLASSES)
    assert kind == "logits"
    np.testing.assert_array_equal(logits, FEATURES[:, :3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_tensors_with_gradients_of_any_type(dtype: torch.dtype) -> None:
    layer = nn.Linear(6, 3).to(dtype)
    given = PredictFunction(lambda x: layer(torch.from_numpy(x).to(dtype)))
    expected = layer(torch.from_numpy(FEATURES).to(dtype)).detach().float().numpy()
    np.testing.assert_array_equal(given.outputs(FEATURES, CLASSES).logits, expected)


def test_a_function_gets_batches_and_is_named_by_its_path() -> None:
    sizes = []

    def predict(features: Any) -> Any:
        sizes.append(len(features))
        return features[:, :3].tolist()

    PredictFunction(predict).outputs(np.zeros((BATCH_SIZE + 1, 6), np.float32), CLASSES)
    assert sizes == [BATCH_SIZE, 1]
    named = PredictFunction(f"{__name__}:softmax")
    assert named.outputs(FEATURES, CLASSES).kind == "probabilities"
    assert named.describe()["function"] == f"{__name__}:softmax"


def with_nan(features: Any) -> Any:
    outputs = np.array(features[:, :3])
    outputs[7:9, 1] = np.nan
    return outputs


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x: x[:, 0], r"predict returned outputs of shape \(40,\), expected \(40, 3\)"),
        (
            lambda x: x[:, :2],
            r"shape \(40, 2\), expected \(40, 3\): one row per record, one column per class",
        ),
        (lambda x: x[:5, :3], r"shape \(5, 3\)"),
        (lambda x: x[:, :3] * 1e300, "NaN or infinite outputs for 40 of 40 records"),
        (with_nan, r"NaN or infinite outputs for 2 of 40 records \(first: record 7\)"),
        (lambda x: {"logits": x}, "returned dict, expected an array of numbers"),
        (lambda x: ["a"] * len(x), "returned list, expected an array of numbers"),
        ("nowhere.at_all:predict", "predict='nowhere.at_all:predict' cannot be imported"),
        (f"{__name__}:CLASSES", "is tuple, not a function"),
    ],
)
def test_what_a_function_must_not_return(predict: Any, message: str) -> None:
    with pytest.raises(InputError, match=message), np.errstate(over="ignore"):
        PredictFunction(predict).outputs(FEATURES.astype(np.float64), CLASSES)


# --- all of them ---


def test_every_model_identifies_itself(
    saved_mlp: NetWeights, tmp_path: Path, forest: RandomForestClassifier
) -> None:
    net = saved_mlp.describe()
    assert (net["kind"], net["file"], net["net"]) == ("network", "net.pt", "mlp")
    assert net["net_options"] == '{"width": 5}' and len(net["sha256"]) == 64
    estimator = FittedEstimator(saved_as(tmp_path / "x.joblib", forest), trust=True).describe()
    assert (estimator["file"], estimator["estimator"]) == ("x.joblib", "RandomForestClassifier")
    assert FittedEstimator(forest).describe() == {
        "kind": "fitted estimator",
        "estimator": "RandomForestClassifier",
    }
    assert PredictFunction(softmax).describe()["sha256"] != PredictFunction(with_nan).describe()["sha256"]
    assert PredictFunction(len).describe() == {"kind": "function", "function": "len"}


def test_a_files_extension_says_which_kind_it_is(tmp_path: Path) -> None:
    assert model_from_file(tmp_path / "x.skops", trust=True) == FittedEstimator(tmp_path / "x.skops", True)
    assert model_from_file(tmp_path / "x.pt", "mlp") == NetWeights(tmp_path / "x.pt", "mlp")
    with pytest.raises(InputError, match="weights need the net they fit"):
        model_from_file(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="is an estimator, which needs neither a net"):
        model_from_file(tmp_path / "x.joblib", "mlp")
