from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from leakscope.errors import InputError
from leakscope.frames.text import Tokenizer
from leakscope.types import Design, Records, Signals, digest_arrays
from tests.made_up_text import text_records


def some_records(n=6, **changes):
    given = {
        "features": np.arange(2 * n, dtype=np.float32).reshape(n, 2),
        "labels": np.arange(n) % 3,
        "ids": np.array([f"r{i}" for i in range(n)]),
        "name": "clinic",
        "groups": {"sex": np.array(["f", "m"] * (n // 2))},
        "class_names": ("a", "b", "c"),
    }
    return Records(**{**given, **changes})


def test_records_know_their_size_and_task():
    classes = some_records()
    assert (len(classes), classes.n_classes, classes.is_classification) == (6, 3, True)
    real = some_records(labels=np.linspace(0, 1, 6, dtype=np.float32), class_names=())
    assert (len(real), real.n_classes, real.is_classification) == (6, 1, False)


def with_nan(n_bad):
    features = np.zeros((6, 2), dtype=np.float32)
    features[3 : 3 + n_bad, 1] = [np.nan, np.inf][:n_bad]
    return features


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"features": with_nan(1)},
            r"clinic: 1 records have NaN or infinite features \(first: id r3\); drop",
        ),
        ({"features": with_nan(2)}, "2 records have NaN or infinite"),
        (
            {"features": np.zeros((6, 2))},
            r"must be float32, uint8 \(images\) or int32 \(token ids\), got float64",
        ),
        ({"features": np.zeros((5, 2), np.float32)}, "features has 5 rows but there are 6 labels"),
        ({"ids": np.array(["a", "b"])}, "ids has 2 rows but there are 6 labels"),
        ({"ids": np.array(["a"] * 6)}, "ids are not unique"),
        ({"groups": {"ward": np.array(["x"])}}, "ward has 1 rows but there are 6 labels"),
        ({"labels": np.zeros(6, dtype=np.int64)}, "all labels are 'a'; an audit needs at least two classes"),
        ({"labels": np.arange(6)}, r"labels span 0\.\.5 but there are 3 class names"),
        ({"labels": np.arange(6) - 1}, r"labels span -1\.\."),
        ({"labels": np.zeros((6, 1), dtype=np.int64)}, r"non-empty vector, got shape \(6, 1\)"),
        ({"labels": np.zeros(0, dtype=np.int64)}, r"non-empty vector, got shape \(0,\)"),
        ({"labels": np.array([0, 1, 2, 3, 4, np.nan], np.float32)}, "1 records have NaN or infinite labels"),
        (
            {"labels": np.array([0, 1, 2, 3, 4, 1e30], np.float32)},
            "label is 1e\\+30, .* another unit",
        ),
        ({"labels": np.array([0, 1, 2, 3, 4, 5], np.float32) * 1e-30}, "the largest label is 5e-30"),
    ],
)
def test_wrong_records_are_refused(changes, problem):
    with pytest.raises(InputError, match=problem):
        some_records(**changes)


def test_all_problems_of_records_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        some_records(features=with_nan(1), ids=np.array(["a"] * 6), labels=np.zeros(6, dtype=np.int64))
    for problem in ("NaN or infinite", "not unique", "all labels are 'a'"):
        assert problem in str(caught.value)
    with pytest.raises(InputError) as caught:
        some_records(features=np.zeros((5, 2)), ids=np.array(["a"]))
    for problem in ("float64", "features has 5 rows", "ids has 1 rows"):
        assert problem in str(caught.value)


def changed(array, value):
    array = array.copy()
    array.flat[-1] = value
    return array


CHANGES = {
    "one feature": lambda r: {"features": changed(r.features, 0.5)},
    "the features' shape": lambda r: {"features": r.features.reshape(6, 1, 2)},
    "the features' kind": lambda r: {"features": r.features.astype(np.uint8)},
    "one label": lambda r: {"labels": changed(r.labels, 1)},
    "one id": lambda r: {"ids": changed(r.ids, "zz")},
    "one group entry": lambda r: {"groups": {"sex": changed(r.groups["sex"], "x")}},
    "a group's name": lambda r: {"groups": {"gender": r.groups["sex"]}},
    "one group more": lambda r: {"groups": {**r.groups, "ward": r.groups["sex"]}},
    "a class name": lambda r: {"class_names": ("a", "b", "d")},
    "one class more": lambda r: {"class_names": ("a", "b", "c", "d")},
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_of_content_changes_the_digest(what):
    records = some_records()
    assert replace(records, **CHANGES[what](records)).digest != records.digest


def test_equal_records_have_equal_digests_also_after_slicing():
    records = some_records()
    assert some_records().digest == records.digest
    assert replace(records, name="other").digest == records.digest
    strided = replace(records, features=np.repeat(records.features, 2, axis=0)[::2])
    assert strided.digest == records.digest


def test_digest_tells_where_one_array_ends_and_refuses_python_objects():
    a = np.arange(4)
    assert digest_arrays(a[:2], a[2:]) != digest_arrays(a[:3], a[3:])
    assert digest_arrays(a) != digest_arrays(a.reshape(2, 2)) != digest_arrays(a.astype(np.int32))
    with pytest.raises(TypeError, match="plain dtype"):
        digest_arrays(np.array([object()]))


# Few distinct values, so that duplicates are everywhere.
repeated = st.integers(2, 30).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.float32, (n, 2), elements=st.sampled_from([-1.5, 1.0, 1e-30])),
        hnp.arrays(np.int64, n, elements=st.integers(0, 1)),
    )
)


@given(repeated)
def test_duplicates_are_those_a_comparison_of_all_pairs_finds(rows):
    features, labels = rows
    if len(np.unique(labels)) < 2:
        labels[0] = 1 - labels[0]
    n = len(labels)
    records = Records(features, labels, np.arange(n).astype(str), class_names=("a", "b"))
    first = [
        next(j for j in range(n) if labels[j] == labels[i] and (features[j] == features[i]).all())
        for i in range(n)
    ]
    assert records.duplicate_of.tolist() == first


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_duplicate_images_are_found_and_other_labels_are_not_duplicates(dtype):
    features = np.random.default_rng(0).integers(0, 255, (5, 3, 4, 4)).astype(dtype)
    features[3], features[4] = features[1], features[1]
    records = Records(features, np.array([0, 1, 0, 1, 0]), np.arange(5).astype(str), class_names=("a", "b"))
    assert records.duplicate_of.tolist() == [0, 1, 2, 1, 4]


def test_duplicates_of_a_real_label_need_the_same_label():
    features = np.zeros((3, 1), dtype=np.float32)
    records = Records(features, np.array([0.5, 0.25, 0.5], np.float32), np.arange(3).astype(str))
    assert records.duplicate_of.tolist() == [0, 1, 0]


def test_take_keeps_rows_together_in_the_given_order():
    taken = some_records().take(np.array([4, 0, 5]))
    assert taken.ids.tolist() == ["r4", "r0", "r5"]
    assert taken.features[:, 0].tolist() == [8, 0, 10]
    assert taken.labels.tolist() == [1, 0, 2]
    assert taken.groups["sex"].tolist() == ["f", "f", "m"]
    assert (taken.name, taken.class_names) == ("clinic", ("a", "b", "c"))


def test_members_are_the_marked_records():
    design = Design(np.array([[True, False, True], [False, True, False]]))
    assert (design.n_models, design.n_records) == (2, 3)
    assert design.members(0).tolist() == [0, 2]
    assert design.members(1).tolist() == [1]


def test_members_with_columns_are_the_records_behind_the_marked_columns():
    in_mask = np.array([[True, False, True], [False, True, True]])
    columns = np.array([[7, 8, 9], [20, 3, 11]])
    design = Design(in_mask, columns)
    assert design.members(0).tolist() == [7, 9]
    assert design.members(1).tolist() == [3, 11]
    other = design.take(np.array([1]))
    assert other.members(0).tolist() == [3, 11]


def test_a_design_s_digest_follows_mask_and_columns():
    in_mask, columns = np.eye(2, dtype=bool), np.array([[0, 1], [1, 2]])
    digests = {
        Design(in_mask).digest,
        Design(~in_mask).digest,
        Design(in_mask, columns).digest,
        Design(in_mask, columns + 1).digest,
    }
    assert len(digests) == 4
    assert Design(in_mask.copy()).digest == Design(in_mask).digest


def test_signals_give_the_last_checkpoint_and_name_what_is_missing():
    loss = np.arange(12.0).reshape(2, 3, 2)
    signals = Signals({"loss": loss, "correct": loss > 0}, (1, 2, 3), np.array([0, 1]))
    np.testing.assert_array_equal(signals.last("loss"), [[4, 5], [10, 11]])
    with pytest.raises(InputError, match=r"no signal 'logits' \(it has correct, loss\); add it"):
        signals.last("logits")


@pytest.mark.parametrize("labels", [np.array([5, 6]), np.array([[5, 6], [7, 8]])])
def test_signals_of_some_models_keep_their_labels(labels):
    signals = Signals({"loss": np.arange(4.0).reshape(2, 1, 2)}, (1,), labels).take(np.array([1]))
    assert signals.last("loss").tolist() == [[2, 3]]
    assert signals.labels.tolist() == ([5, 6] if labels.ndim == 1 else [[7, 8]])


def test_records_of_text_know_that_they_are_text():
    plain = text_records(["a b c", "b a", "c"])
    assert plain.is_text and plain.is_language and plain.is_classification and plain.n_classes == 1
    classes = replace(plain, labels=np.array([0, 1, 0]), class_names=("spam", "ham"))
    assert classes.is_text and not classes.is_language
    assert not some_records().is_text and not some_records().is_language
    with pytest.raises(InputError, match="needs at least two classes"):
        replace(plain, class_names=("spam", "ham"))


@pytest.mark.parametrize(
    "row", [[-2, 0, 1], [0, -1, 1], [-1, -1, -1], [0, 1, 3]], ids=["negative", "gap", "empty", "unknown"]
)
def test_rows_that_are_no_tokens_are_refused_with_their_id(row):
    plain = text_records(["a b c", "b a", "c"])
    features = plain.features.copy()
    features[1] = row
    with pytest.raises(InputError, match=r"token ids.*\(not so: id d1\).*astype\('float32'\)"):
        replace(plain, features=features)


def test_text_needs_token_ids_of_two_axes():
    plain = text_records(["a b c", "b a", "c"])
    with pytest.raises(InputError, match=r"\(records, length\), got \(3, 3, 1\)"):
        replace(plain, features=plain.features[:, :, None])
    with pytest.raises(InputError, match="text belongs to token ids"):
        replace(plain, features=plain.features.astype(np.float32))
    with pytest.raises(InputError, match="text has 2 rows but there are 3 labels"):
        replace(plain, text=plain.text.take(np.array([0, 1])))


def test_text_is_part_of_the_digest_and_of_what_is_taken():
    plain = text_records(["a b c", "b a", "c", "b a"])
    assert plain.duplicate_of.tolist() == [0, 1, 2, 1]
    other = Tokenizer("other", "1" * 64, 3)
    assert replace(plain, text=replace(plain.text, tokenizer=other)).digest != plain.digest
    assert replace(plain, text=None).digest != plain.digest
    taken = plain.take(np.array([2, 0]))
    assert list(taken.text.documents) == ["c", "a b c"] and taken.features[0].tolist() == [2, -1, -1]
