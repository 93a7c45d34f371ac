"""`assert_private` fails with the verdict's sentences, and never passes what the audit cannot decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

import leakscope
from leakscope.errors import InputError
from leakscope.testing import assert_private
from tests.quick_audits import quick_audits

N_RECORDS = 600


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with quick_audits():
        yield


def made_up() -> tuple[leakscope.Records, np.ndarray[Any, Any]]:
    """Records whose labels are noise, and half of them as members."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, N_RECORDS)
    features = rng.normal(size=(N_RECORDS, 4)).astype(np.float32)
    ids = np.arange(N_RECORDS).astype(str)
    records = leakscope.Records(features, labels, ids, class_names=("0", "1"))
    return records, rng.permutation(N_RECORDS) < N_RECORDS // 2


def fitted(estimator: Any) -> tuple[Any, leakscope.Records, np.ndarray[Any, Any]]:
    records, members = made_up()
    return estimator.fit(records.features[members], records.labels[members]), records, members


def test_a_model_that_leaks_fails_with_the_sentences_of_the_verdict(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_private(*fitted(DecisionTreeClassifier()), models=8, out=tmp_path / "run")
    message = str(failure.value)
    assert message.startswith("Gate failed: the AUC is at least ")
    assert "that of 'release'" in message
    assert "Rating: " in message
    assert str(tmp_path / "run") in message
    assert (tmp_path / "run" / "report.html").exists()


def test_a_model_that_ignores_its_records_passes_limits_that_the_audit_resolves() -> None:
    assert_private(*fitted(DummyClassifier()), models=8, gate="internal")


def test_an_inconclusive_audit_fails_unless_that_is_allowed() -> None:
    source = few_predictions()
    with pytest.raises(AssertionError, match=r"^Inconclusive: the audit cannot decide") as failure:
        assert_private(source)
    assert "An inconclusive audit is no pass" in str(failure.value)
    assert_private(source, allow_inconclusive=True)


def test_what_is_allowed_to_be_inconclusive_may_still_not_fail() -> None:
    with pytest.raises(AssertionError, match=r"^Gate failed"):
        assert_private(few_predictions(), allow_inconclusive=True, gate=leakscope.Gate(max_auc=0.1))


def test_a_failed_check_is_never_allowed() -> None:
    with pytest.raises(AssertionError, match="DO NOT TRUST THESE FIGURES"):
        assert_private(few_predictions(margin=-3.0), allow_inconclusive=True)


def few_predictions(margin: float = 3.0) -> leakscope.SavedPredictions:
    from leakscope.data.predictions import Predictions

    logits = np.random.default_rng(1).normal(size=(60, 2)).astype(np.float32)
    logits[np.arange(60), np.arange(60) % 2] += margin
    ids = np.arange(60).astype(str)
    return leakscope.SavedPredictions(Predictions(logits, np.arange(60) % 2, ids, np.arange(60) % 4 < 2))


def test_a_function_needs_a_recipe_and_arguments_are_checked() -> None:
    records, members = made_up()
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((DummyClassifier(),), "records or is_member is missing"),
        ((np.tanh, records, members), "recipe is missing"),
        ((3, records, members), "model is int"),
        (
            (DummyClassifier(), (np.eye(4), np.arange(4)), members),
            r"records is tuple; give leakscope\.read_table",
        ),
        ((few_predictions(), records), "records would do nothing"),
    ]
    for arguments, named in wrong:
        with pytest.raises(InputError, match=named):
            assert_private(*arguments)
    with pytest.raises(InputError, match="did you mean 'models'"):
        assert_private(few_predictions(), model_s=3)
    with pytest.raises(InputError, match="choose one of release, research, internal"):
        assert_private(few_predictions(), gate="public")  # type: ignore[arg-type]
