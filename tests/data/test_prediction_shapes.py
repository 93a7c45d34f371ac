"""Tables of predictions in the shapes that people have: each is read, or refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from leakscope.data.prediction_roles import PredictionColumns
from leakscope.data.predictions import Predictions, read_predictions
from leakscope.errors import InputError
from leakscope.single_model.attack import attack

P_YES = [0.9, 0.2, 0.7, 0.4]
ANSWERS = ["yes", "no", "yes", "no"]
SPLIT = ["train", "train", "test", "test"]


def table(folder: Path, **columns: object) -> Path:
    path = folder / "scores.csv"
    pl.DataFrame(columns).write_csv(path)
    return path


def read(path: Path, **given: object) -> Predictions:
    return read_predictions(path, "required", PredictionColumns(**given))  # type: ignore[arg-type]


def probability_of_the_label(predictions: Predictions) -> list[float]:
    shares = np.exp(predictions.logits.astype(np.float64))
    shares /= shares.sum(axis=1, keepdims=True)
    return [float(p) for p in shares[np.arange(len(shares)), predictions.labels]]


EXPECTED = [0.9, 0.8, 0.7, 0.6]
"""The probability of each record's own label, in every shape of the same predictions."""


@pytest.mark.parametrize(
    ("columns", "given"),
    [
        ({"prob": P_YES}, {}),
        ({"prob_yes": P_YES}, {}),
        ({"p_Yes": P_YES}, {}),
        ({"prob_1": P_YES}, {}),
        ({"prob_0": [1 - p for p in P_YES]}, {}),
        ({"prob_no": [1 - p for p in P_YES]}, {}),
        ({"score": P_YES}, {"prob": ("score",)}),
        ({"score": [1 - p for p in P_YES]}, {"prob": ("score",), "classes": ("no",)}),
        ({"yes": P_YES}, {}),
        ({"yes": P_YES, "no": [1 - p for p in P_YES]}, {}),
        ({"prob_yes": P_YES, "prob_no": [1 - p for p in P_YES]}, {}),
        ({"proba_0": [1 - p for p in P_YES], "proba_1": P_YES}, {}),
        ({"a": [1 - p for p in P_YES], "b": P_YES}, {"prob": ("a", "b")}),
        ({"a": P_YES, "b": [1 - p for p in P_YES]}, {"prob": ("a", "b"), "classes": ("yes", "no")}),
        ({"logit": np.log(P_YES) - np.log1p(-np.array(P_YES))}, {}),
        ({"logit_no": np.log1p(-np.array(P_YES)), "logit_yes": np.log(P_YES)}, {}),
        ({"z": np.log(P_YES) - np.log1p(-np.array(P_YES))}, {"logit": ("z",)}),
    ],
)  # fmt: skip
def test_a_binary_classifier_is_the_same_in_every_shape(
    tmp_path: Path, columns: dict[str, object], given: dict[str, object]
) -> None:
    predictions = read(table(tmp_path, answer=ANSWERS, split=SPLIT, **columns), label="answer", **given)
    assert probability_of_the_label(predictions) == pytest.approx(EXPECTED, abs=1e-6)
    assert [predictions.class_names[label] for label in predictions.labels] == ANSWERS
    assert predictions.is_member is not None and predictions.is_member.tolist() == [True, True, False, False]
    assert predictions.groups == {}


@pytest.mark.parametrize(
    "pair", [(1, 0), ("1", "0"), (True, False), (1.0, 0.0), (1, -1), ("Y", "N"), ("TRUE", "FALSE")]
)
def test_which_label_a_probability_alone_is_about(tmp_path: Path, pair: tuple[object, object]) -> None:
    predictions = read(table(tmp_path, y=[*pair, *pair], train=[1, 1, 0, 0], p=P_YES))
    assert probability_of_the_label(predictions) == pytest.approx(EXPECTED, abs=1e-6)


@pytest.mark.parametrize("columns", [{"prob_01": P_YES}, {"prob_1": [1 - p for p in P_YES]}])
def test_classes_with_leading_zeros_stay_apart(tmp_path: Path, columns: dict[str, object]) -> None:
    labels = [{"yes": "01", "no": "1"}[answer] for answer in ANSWERS]
    predictions = read(table(tmp_path, label=labels, split=SPLIT, **columns))
    assert probability_of_the_label(predictions) == pytest.approx(EXPECTED, abs=1e-6)
    assert [predictions.class_names[label] for label in predictions.labels] == labels


def test_columns_may_be_called_by_numbers_with_leading_zeros(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).dirichlet(np.ones(12), 4)
    named = {f"prob_{k:02}": scores[:, k] for k in (*range(5, 12), *range(5))}
    for labels in ([3, 0, 11, 7], ["03", "00", "11", "07"]):
        predictions = read(table(tmp_path, label=labels, split=SPLIT, **named))
        assert probability_of_the_label(predictions) == pytest.approx(
            scores[range(4), [3, 0, 11, 7]], abs=1e-6
        )
    both = {"prob_01": P_YES, "prob_1": [1 - p for p in P_YES]}
    predictions = read(table(tmp_path, label=["01", "1", "01", "1"], split=SPLIT, **both))
    assert probability_of_the_label(predictions) == pytest.approx(EXPECTED, abs=1e-6)


def test_outputs_with_leading_zeros_are_numbers(tmp_path: Path) -> None:
    path = table(tmp_path, y=["007", "012", "100", "3"], split=SPLIT, out=["008", "1.5", "099", "4"])
    predictions = read(path, prediction="out")
    assert predictions.labels.tolist() == [7, 12, 100, 3]
    assert predictions.logits[:, 0].tolist() == [8, 1.5, 99, 4]


@pytest.mark.parametrize("form", ["{}", "True|False", "TRUE|FALSE", "yes|no", "Y|N", "1|0", "1.0|0.0",
                                  "member|non-member", "in|out", "train|validation"])  # fmt: skip
def test_members_in_every_spelling(tmp_path: Path, form: str) -> None:
    yes, _, no = form.partition("|") if "|" in form else ("true", "", "false")
    path = table(tmp_path, label=ANSWERS, prob=P_YES, who=[yes, no, no, f" {yes}"])
    predictions = read(path, member="who")
    assert predictions.is_member is not None and predictions.is_member.tolist() == [True, False, False, True]


EUROPEAN = """\
\ufeffid;label;split;prob_no;prob_yes
1;yes;train;0,1;0,9
2;no;train;0,8;0,2
3;yes;test;"0,3";0,7
4;no;test;0,6;0,4
"""


def test_semicolons_decimal_commas_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(EUROPEAN, encoding="utf-8")
    predictions = read(tmp_path / "scores.csv")
    assert probability_of_the_label(predictions) == pytest.approx(EXPECTED, abs=1e-6)
    assert predictions.ids.tolist() == ["1", "2", "3", "4"]


def test_decimal_commas_between_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('label,split,prob\nyes,train,"0,9"\nno,test,"0,2"\n')
    assert probability_of_the_label(read(tmp_path / "a.csv")) == pytest.approx([0.9, 0.8])
    (tmp_path / "b.csv").write_text("label,split,prob\nyes,train,0,9\nno,test,0,2\n")
    with pytest.raises(InputError, match="separate the columns by semicolons"):
        read(tmp_path / "b.csv")


def test_what_pandas_writes_with_its_index_and_probabilities_rounded(tmp_path: Path) -> None:
    lines = [
        ",label,train,a,b,c",
        "7,a,True,0.33,0.33,0.33",
        "8,b,False,0.2,0.51,0.3",
        "9,c,True,0.0,0.0,1.0",
    ]
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    predictions = read(tmp_path / "scores.csv")
    assert predictions.ids.tolist() == ["7", "8", "9"] and predictions.class_names == ("a", "b", "c")
    assert probability_of_the_label(predictions) == pytest.approx([1 / 3, 0.505, 1], abs=0.01)


def test_groups_are_columns_with_few_values(tmp_path: Path) -> None:
    n = 300
    path = table(
        tmp_path, label=["a", "b"] * (n // 2), prob_a=[0.75, 0.25] * (n // 2), prob_b=[0.25, 0.75] * (n // 2),
        member=[1, 1, 0] * (n // 3), town=["x", "y", "z"] * (n // 3), income=list(range(n)),
    )  # fmt: skip
    predictions = read(path)
    assert list(predictions.groups) == ["town"]
    assert predictions.reading == (
        "labels from 'label'; probabilities from 'prob_a', 'prob_b' (classes a, b); members from 'member'; "
        "records numbered by row; groups from 'town'; no groups from 'income', which has more than 100 values"
    )


def references(n: int = 6) -> dict[str, object]:
    wide: dict[str, object] = {
        "id": [f"p{i}" for i in range(n)],
        "label": ["no", "yes"] * (n // 2),
        "is_member": [1, 1, 0] * (n // 3),
        "prob_yes": [0.1, 0.9] * (n // 2),
    }
    for reference, p in enumerate((0.6, 0.8)):
        wide[f"reference_{reference}_prob_yes"] = [1 - p, p] * (n // 2)
        wide[f"reference_{reference}_member"] = [reference, 0, 1] * (n // 3)
    return wide


def long(wide: dict[str, object]) -> pl.DataFrame:
    """One row per model and record, those of the references in another order."""
    frame = pl.DataFrame(wide)
    parts = [frame.select("id", "label", "is_member", "prob_yes", model=pl.lit("target"))]
    for reference in range(2):
        prefix = f"reference_{reference}_"
        own = {f"{prefix}member": "is_member", f"{prefix}prob_yes": "prob_yes"}
        rows = frame.select("id", "label", *own).rename(own)
        parts.append(rows.with_columns(model=pl.lit(f"fold-{reference}")).reverse())
    return pl.concat(parts, how="diagonal_relaxed")


def test_reference_models_side_by_side_and_one_after_the_other(tmp_path: Path) -> None:
    wide = read(table(tmp_path, **references()))
    assert wide.reference_logits is not None and wide.reference_in_mask is not None
    assert wide.reference_logits.shape == (2, 6, 2)
    np.testing.assert_allclose(np.exp(wide.reference_logits[1, :2]), [[0.8, 0.2], [0.2, 0.8]], rtol=1e-6)
    long(references()).write_csv(tmp_path / "long.csv")
    after = read(tmp_path / "long.csv")
    for name in ("logits", "labels", "ids", "is_member", "reference_logits", "reference_in_mask"):
        np.testing.assert_array_equal(getattr(after, name), getattr(wide, name))


def test_the_audited_model_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    long(references()).rename({"model": "fold"}).write_csv(path)
    swapped = read(path, model_column="fold", target="fold-1")
    assert swapped.is_member is not None and swapped.is_member.tolist() == [True, False, True] * 2
    with pytest.raises(
        InputError, match=r"no model 'fold-7'; .*--target \(there are: target, fold-0, fold-1\)"
    ):
        read(path, model_column="fold", target="fold-7")


def spoiled(frame: pl.DataFrame, how: str) -> pl.DataFrame:
    if how == "lacks":
        return frame.filter((pl.col("model") != "fold-1") | (pl.col("id") != "p3"))
    if how == "twice":
        return pl.concat([frame, frame.tail(1)])
    changed = pl.when((pl.col("model") == "fold-0") & (pl.col("id") == "p2")).then(pl.lit("yes"))
    return frame.with_columns(changed.otherwise("label").alias("label"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("lacks", "model 'fold-1' lacks 1 of the target's 6 records .first: 'p3'."),
        ("twice", "model 'fold-1' has several rows for the record 'p0'"),
        ("label", "the record 'p2' has another label for the model 'fold-0'"),
    ],
)
def test_models_that_do_not_fit_each_other(tmp_path: Path, how: str, message: str) -> None:
    spoiled(long(references()), how).write_csv(tmp_path / "long.csv")
    with pytest.raises(InputError, match=message):
        read(tmp_path / "long.csv")


BASE = {"label": ANSWERS, "split": SPLIT, "prob": P_YES}


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({"label": None}, {}, r"has no column label; .*--label \(there are: split, prob\)"),
        ({}, {"label": "lable"}, "label column 'lable' does not exist; did you mean 'label'?"),
        ({}, {"id": "person"}, "id column 'person' does not exist"),
        ({}, {"member": "splt"}, "member column 'splt' does not exist; did you mean 'split'?"),
        ({}, {"prob": ("score",)}, "probability column 'score' does not exist"),
        ({"split": None}, {}, "does not say who is a member; .* with --member"),
        ({"split": ["train", "dev", "x", "test"]}, {}, "split holds 'dev'; expected true or false"),
        ({"split": ["train"] * 4}, {}, "every record is a member"),
        ({"split": [0] * 4}, {}, "every record is a non-member"),
        ({"prob": ["[0.1 0.9]"] * 4}, {}, "several numbers in one cell, such as '.0.1 0.9.'; write"),
        ({"prob": [90, 20, 70, 40]}, {}, "prob hold 90, expected values from 0 to 1; divide percent"),
        ({"prob": ["90%", "20%", "70%", "40%"]}, {}, r"'90%' in 4 rows \(first: line 2\); write percent as"),
        ({"prob": [0.9, float("nan"), 0.7, 0.4]}, {}, r"output 'prob' is NaN in 1 row \(first: line 3\)"),
        ({"prob": [0.9, None, 0.7, 0.4]}, {}, r"output 'prob' has no value in 1 row \(first: line 3\)"),
        ({"prob": None, "score": P_YES}, {}, "name the columns of probabilities with --prob"),
        ({"label": ["cat", "dog", "cat", "dog"]}, {}, "'cat' and 'dog', and its name .* --classes dog"),
        ({"label": list("abca")}, {}, r"'label' has 3 classes \(a, b, c\), but there is one column"),
        ({"label": ["yes"] * 4}, {}, r"holds a single class \(yes\), which cannot be audited with one"),
        ({"label": [1, None, 1, 0]}, {}, r"label 'label' has no value in 1 row \(first: line 3\)"),
        ({"label": ["no", "yes", "no", "yes"]}, {}, "right for 0% of the records; .* --classes no"),
        ({"prob": None, "y_pred": ANSWERS}, {}, "'y_pred' seems to hold predicted classes; save prob"),
        ({"label": [1, 0, 1, 0], "prob": None, "pred": [1, 0, 0, 0]}, {}, "'pred' seems to hold predicted"),
        ({"id": ["a", "b", "a", "c"]}, {}, "'a' is in both line 2 and line 4 .* with --model-column"),
        ({"id": ["a", "b", "a", "c"], "model": ["u", "u", "v", "v"]}, {}, "no model 'target'; .*--target"),
        ({}, {"target": "m"}, "no column names the models; add --model-column"),
        ({"m": ["target"] * 4}, {"model_column": "m"}, "so records need ids; name them with --id"),
        ({"prob": None, "prob_a": P_YES, "prob_b": P_YES}, {}, "holds 'no', which is none of the classes of"),
        ({"prob": None, "prob_no": P_YES, "prob_yes": P_YES}, {}, r"add up to 1 \(first: line 2, 1.8\)"),
        ({"prob": None, "prob_0": P_YES, "prob_1": [1 - p for p in P_YES]}, {},
         "read as the classes no, yes, are right for 0% of the records, .* with --classes"),
        ({"prob": None, "logit": P_YES}, {}, "logits logit are probabilities"),
        ({"prob": None, "logit_no": [1 - p for p in P_YES], "logit_yes": P_YES}, {}, "are probabilities"),
        ({"prob": None, "no": [-2, 3, 1, 1], "yes": [1, 2, 3, 4]}, {}, "name raw outputs with --logit"),
        ({}, {"prob": ("prob",), "classes": ("maybe",)}, "choose one of the labels: no, yes"),
        ({}, {"prob": ("prob", "split"), "classes": ("a", "b", "c")}, "give as many as there are columns"),
        ({"prob_0": P_YES, "prob_2": P_YES, "prob": None}, {}, "output column 'prob_1' does not exist"),
        ({"logit": P_YES}, {}, "has both logit_ and prob_ columns; name those to use with --prob"),
        ({"reference_1_prob": P_YES}, {}, "has no columns of reference_0"),
        ({"reference_0_prob": P_YES}, {}, "column 'reference_0_member' does not exist"),
        ({"reference_0_x": P_YES, "reference_0_member": [1, 0, 1, 0]}, {}, "has no column reference_0_prob"),
    ],
)  # fmt: skip
def test_each_mistake_has_a_line_with_its_remedy(
    tmp_path: Path, changes: dict[str, object], given: dict[str, object], message: str
) -> None:
    columns = {name: values for name, values in (BASE | changes).items() if values is not None}
    path = tmp_path / "scores.csv"
    pl.DataFrame(columns, strict=False).write_csv(path)
    with pytest.raises(InputError, match=message) as refused:
        read(path, **given)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)


def test_options_that_exclude_each_other_or_do_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="prob and logit exclude each other"):
        PredictionColumns(prob=("a",), logit=("b",))
    with pytest.raises(InputError, match="classes would do nothing"):
        PredictionColumns(prediction="a", classes=("b",))
    np.savez(tmp_path / "x.npz", logits=np.eye(3) * 5, labels=[0, 1, 2], is_member=[1, 0, 1])
    with pytest.raises(InputError, match="label, member would do nothing: an npz file has arrays"):
        read(tmp_path / "x.npz", label="labels", member="m")


def test_a_regression_by_names_of_its_columns(tmp_path: Path) -> None:
    path = table(tmp_path, y=[1.5, 2.5, 3.0], y_pred=[1.4, 2.6, 3.3], train=[1, 0, 1])
    predictions = read(path)
    assert predictions.kind == "outputs" and predictions.labels.dtype == np.float32
    path = table(tmp_path, y=[1, 2, 3], guess=[1, 2, 3], train=[1, 0, 1])
    assert read(path, prediction="guess").kind == "outputs"


@pytest.mark.parametrize("text", ["it's", "naïve ✓", "two words"])
def test_names_of_columns_and_classes_may_be_anything(tmp_path: Path, text: str) -> None:
    path = table(
        tmp_path, **{text: ["é", "ö"] * 2, f"prob_{text}": [0.9, 0.2, 0.6, 0.1], "is_member": [1, 0] * 2}
    )
    predictions = read(path, label=text, classes=("é",))
    assert probability_of_the_label(predictions) == pytest.approx([0.9, 0.8, 0.6, 0.9])


def test_two_files_of_one_model_have_their_classes_in_one_order(tmp_path: Path) -> None:
    """A column of another class would be compared with it."""
    p_no = [1 - p for p in P_YES]
    files = []
    for name, columns in (("a", {"no": p_no, "yes": P_YES}), ("b", {"prob_yes": P_YES, "prob_no": p_no})):
        (tmp_path / name).mkdir()
        files.append(read(table(tmp_path / name, label=ANSWERS, split=SPLIT, **columns)))
    with pytest.raises(InputError, match=r"the classes no, yes and private ones yes, no; .* alike"):
        attack(files[0], files[1], tmp_path / "run")
