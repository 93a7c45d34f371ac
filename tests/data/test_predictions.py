from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from leakscope.data.predictions import Predictions, checked_log_probabilities, read_predictions
from leakscope.errors import InputError

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, 3.0], [1.0, 1.0, 1.0], [-2.0, 4.0, 0.0]], dtype=np.float32)
LABELS = np.array([0, 2, 1, 1])
MEMBERS = np.array([True, False, True, False])


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "answers.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def save_table(folder: Path, suffix: str, **changes: Any) -> Path:
    columns: dict[str, Any] = {f"logit_{c}": LOGITS[:, c] for c in range(3)}
    columns |= {
        "label": LABELS,
        "id": ["a", "b", "c", "d"],
        "is_member": MEMBERS,
        "ward": ["n", "s", "n", "s"],
    }
    frame = pl.DataFrame({name: values for name, values in (columns | changes).items() if values is not None})
    path = folder / f"answers{suffix}"
    if suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def test_npz_with_everything(tmp_path: Path) -> None:
    path = save(
        tmp_path, logits=LOGITS, labels=LABELS, ids=np.array(["a", "b", "c", "d"]), is_member=MEMBERS,
        ward=np.array(["n", "s", "n", "s"]), age=np.array([1, 2, 3, 4]),
        reference_logits=np.stack([LOGITS, 2 * LOGITS]), reference_members=np.array([MEMBERS, ~MEMBERS]),
    )  # fmt: skip
    read = read_predictions(path, "required")
    np.testing.assert_array_equal(read.logits, LOGITS)
    assert read.logits.dtype == np.float32 and read.labels.dtype == np.int64
    assert read.name == "answers" and read.kind == "logits" and len(read) == 4 and read.n_classes == 3
    assert list(read.ids) == ["a", "b", "c", "d"] and list(read.groups) == ["ward", "age"]
    assert read.is_member is not None and list(read.is_member) == list(MEMBERS)
    assert read.reference_logits is not None and read.reference_logits.shape == (2, 4, 3)
    assert read.reference_in_mask is not None and list(read.reference_in_mask[1]) == list(~MEMBERS)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_with_everything(tmp_path: Path, suffix: str) -> None:
    read = read_predictions(save_table(tmp_path, suffix), "required")
    np.testing.assert_allclose(read.logits, LOGITS)
    assert list(read.ids) == ["a", "b", "c", "d"] and list(read.groups["ward"]) == ["n", "s", "n", "s"]
    assert read.is_member is not None and list(read.is_member) == list(MEMBERS)
    assert read.reference_logits is None


def test_eleven_classes_keep_their_order(tmp_path: Path) -> None:
    columns = {f"logit_{c}": [float(c), float(-c)] for c in reversed(range(11))}
    path = tmp_path / "x.parquet"
    pl.DataFrame(columns | {"label": [10, 0]}).write_parquet(path)
    np.testing.assert_array_equal(read_predictions(path).logits[0], np.arange(11))


@pytest.mark.parametrize("values", [[1, 0, 1, 0], ["True", "False", "True", "False"], [1.0, 0.0, 1.0, 0.0]])
def test_membership_as_numbers_and_texts(tmp_path: Path, values: list[Any]) -> None:
    read = read_predictions(save_table(tmp_path, ".csv", is_member=values))
    assert read.is_member is not None and list(read.is_member) == list(MEMBERS)


def test_an_empty_membership_column_says_nothing(tmp_path: Path) -> None:
    assert read_predictions(save_table(tmp_path, ".parquet", is_member=[None] * 4)).is_member is None


def test_probabilities_of_zero_and_one_are_finite(tmp_path: Path) -> None:
    certain = np.array([[1, 0, 0], [0.5, 0.25, 0.25], [1 / 3] * 3, [0, 1, 0]], dtype=np.float32)
    read = read_predictions(save(tmp_path, probabilities=certain, labels=LABELS))
    assert read.kind == "probabilities" and np.isfinite(read.logits).all()
    assert read.logits[0, 0] == 0 and read.logits[0, 1] == np.float32(np.log(0.01 / 2))
    np.testing.assert_allclose(softmax(read.logits), certain, atol=0.01)


def test_probabilities_and_logits_say_the_same(tmp_path: Path) -> None:
    read = read_predictions(save(tmp_path, probabilities=softmax(LOGITS), labels=LABELS))
    shift = LOGITS - read.logits
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape), atol=1e-5)


def change(**changes: Any) -> dict[str, Any]:
    return {"logits": LOGITS, "labels": LABELS, "is_member": MEMBERS} | changes


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (change(logits=None), "has no array logits, probabilities or outputs; save exactly one"),
        (change(probabilities=softmax(LOGITS)), "has both logits and probabilities"),
        (change(labels=None), "label array 'labels' does not exist"),
        (change(labels=[0, 3, 1, -1]), r"label is outside 0\.\.2 such as 3 in 2 rows \(first: row-1\)"),
        (change(labels=["a", "b", "c", "d"]), "labels must be class indices 0, 1"),
        (change(labels=[0.5, 1, 1, 1]), "labels must be class indices 0, 1"),
        (change(labels=LABELS[:3]), "it has: logits 4, labels 3, is_member 4"),
        (change(is_member=MEMBERS[:2]), "is_member 2"),
        (change(is_member=[0, 1, 2, 0]), "is_member holds '2'; expected true or false"),
        (change(members=MEMBERS), "has both is_member and members"),
        (change(is_member=None), "does not say who is a member; add is_member"),
        (change(is_member=[True] * 4), "every record is a member; give records of both sides"),
        (change(ids=["a", "b", "a", "c"]), "'a' is both row-0 and row-2"),
        (change(ids=["a", "b"]), r"ids must have shape \(4,\)"),
        (change(logits=LOGITS * np.array([[1], [np.nan], [1], [1]])), "NaN, infinite .*row-1"),
        (change(logits=LOGITS[:, 0]), r"shape \(4,\), expected \(records, classes\)"),
        (change(logits=LOGITS[:, :1]), "two or more classes"),
        (change(logits=None, probabilities=LOGITS), "probabilities hold 2, expected values from 0 to 1"),
        (change(logits=None, probabilities=LOGITS * np.nan), "probabilities hold nan"),
        (change(logits=None, probabilities=softmax(LOGITS) * 0.9),
         r"of 4 rows do not add up to 1 \(first: row-0, 0.9\)"),
        (change(extra=np.zeros((4, 2))), r"array 'extra' has shape \(4, 2\)"),
        (change(reference_logits=LOGITS[None]), "array 'reference_members' does not exist"),
        (change(shadow_logits=LOGITS[None]), "one value per record; did you mean 'reference_logits'"),
        (change(reference_members=MEMBERS[None]),
         "has no array reference_logits, reference_probabilities or reference_outputs"),
        (change(reference_logits=LOGITS[None, :2], reference_members=MEMBERS[None]),
         r"reference logits must have shape \(models, 4, 3\)"),
        (change(logits=LOGITS[:, 0]), r"logits have shape \(4,\).*; give a binary model both, 0 and z$"),
        (change(logits=np.where(LOGITS > 1, np.inf, LOGITS)), "array 'logits' is NaN, infinite or too large"),
        (change(reference_probabilities=softmax(LOGITS)[None, None], reference_members=MEMBERS[None]),
         r"reference_probabilities have shape \(1, 1, 4, 3\), expected"),
        (change(labels=np.array([None] * 4)), "hold.* Python objects, which need pickle"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = save(tmp_path, **arrays)
    with pytest.raises(InputError, match=message) as caught:
        read_predictions(path, "required")
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, "has no column label; name the column of true classes with --label"),
        ({"logit_1": None}, "output column 'logit_1' does not exist"),
        ({"prob_0": [0.1] * 4}, "has both logit_ and prob_ columns"),
        ({f"logit_{c}": None for c in range(3)}, "has no columns prob_CLASS or logit_CLASS"),
        (
            {"logit_0": ["x", "y", "z", "w"]},
            r"output 'logit_0' holds 'x' in \d+ rows? \(first: (line 2|row-0)\); write numbers",
        ),
        ({"is_member": [True, None, True, False]}, "membership 'is_member' has no value .*(line 3|row-1)"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_mistakes_in_columns_are_named(
    tmp_path: Path, suffix: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_predictions(save_table(tmp_path, suffix, **changes))


@pytest.mark.parametrize("name", ["x.pkl", "x.pt", "x.PTH", "x.joblib"])
def test_pickles_are_refused_unread(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(LOGITS))
    with pytest.raises(InputError, match="is a pickle, which can run code when read"):
        read_predictions(tmp_path / name)


def test_absent_and_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist or is not a file"):
        read_predictions(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"unknown extension '.txt'"):
        read_predictions(tmp_path / "x.txt")


def test_the_noun_checks_itself() -> None:
    ids = np.array(["a", "b", "c", "d"])
    with pytest.raises(InputError, match="go together"):
        Predictions(LOGITS, LABELS, ids, reference_logits=LOGITS[None])
    with pytest.raises(InputError, match="logits hold NaN"):
        Predictions(LOGITS * np.float32(np.nan), LABELS, ids)
    with pytest.raises(InputError, match="do not add up"):
        checked_log_probabilities(np.full((2, 2), 0.4))
