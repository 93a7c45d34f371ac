"""What queries return where outputs are filtered: nothing more than an interface would, and always finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakscope.errors import InputError
from leakscope.signals.filtered import filtered, in_order_of
from leakscope.signals.functions import classification_signals
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import CLASSIFICATION, names_of, of_outputs

LOGITS = torch.from_numpy(np.random.default_rng(0).normal(scale=4, size=(200, 5)).astype(np.float32))
LABELS = torch.arange(200) % 5
FILTERS = [
    OutputFilter(temperature=3.0),
    OutputFilter(digits=1),
    OutputFilter(temperature=10.0, digits=2),
    OutputFilter(top_1=True),
    OutputFilter(random_values=True, digits=3),
]


def test_no_filter_returns_the_very_outputs() -> None:
    assert filtered(LOGITS, NO_FILTER) is LOGITS


def test_a_temperature_divides_logits() -> None:
    assert torch.equal(filtered(LOGITS, OutputFilter(temperature=2.0)), LOGITS / 2)


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_rounded_answers_are_those_of_an_interface_with_so_many_digits(digits: int) -> None:
    shown = np.round(LOGITS.double().softmax(-1).numpy(), digits)
    answer = filtered(LOGITS, OutputFilter(digits=digits)).exp().numpy()
    positive = shown > 0
    np.testing.assert_allclose(answer[positive], shown[positive], rtol=1e-4)
    hidden = answer[~positive]
    assert (hidden < 0.5 * 10.0**-digits).all() and (hidden > 0).all()


@pytest.mark.parametrize("digits", [1, 2])
def test_equal_shown_probabilities_give_equal_signals(digits: int) -> None:
    """Nothing of the digits that are hidden remains in any signal."""
    p = np.array([[0.70, 0.20, 0.10], [0.701, 0.1995, 0.0995], [0.699, 0.202, 0.099]])
    logits, labels = torch.from_numpy(np.log(p)).float(), torch.tensor([1, 1, 1])
    answers = filtered(logits, OutputFilter(digits=digits))
    for name, values in classification_signals(answers, labels, of_outputs(names_of(CLASSIFICATION))).items():
        assert len(torch.unique(values, dim=0)) == 1, name


def test_rounding_keeps_the_predicted_class_where_it_makes_probabilities_equal() -> None:
    close = torch.tensor([[0.0, 0.001], [0.001, 0.0]])
    assert filtered(close, OutputFilter(digits=1)).argmax(-1).tolist() == [1, 0]
    many = torch.linspace(0, 0.1, 100)[None]  # every probability is rounded to 0
    assert filtered(many, OutputFilter(digits=1)).argmax(-1).item() == 99


def test_the_predicted_class_alone_has_two_values_of_log_odds() -> None:
    answers = filtered(LOGITS, OutputFilter(top_1=True))
    signals = classification_signals(answers, LABELS, ("log_odds", "correct"))
    right, wrong = (
        signals["log_odds"][signals["correct"] == is_right].unique() for is_right in (True, False)
    )
    assert right.tolist() == pytest.approx([np.log(100)], abs=1e-5)
    assert wrong.tolist() == pytest.approx([np.log(0.0025 / 1.0075)], abs=1e-5)
    assert torch.equal(signals["correct"], LOGITS.argmax(-1) == LABELS)


def test_random_values_keep_the_order_of_classes_and_nothing_else() -> None:
    other = LOGITS.flip(0)
    answers = in_order_of(LOGITS, other)
    assert torch.equal(answers.argsort(-1), LOGITS.argsort(-1))
    assert torch.equal(answers.sort(-1).values, other.sort(-1).values)
    scaled = in_order_of(LOGITS * 7 + 3, other)  # another confidence, the same order
    assert torch.equal(scaled, answers)


@pytest.mark.parametrize("outputs", FILTERS, ids=str)
def test_every_signal_of_every_filter_is_finite(outputs: OutputFilter) -> None:
    extreme = torch.cat([LOGITS * 1e4, torch.zeros(3, 5), LOGITS * 1e-6])
    labels = torch.arange(len(extreme)) % 5
    answers = filtered(extreme, outputs, extreme.flip(0))
    for name, values in classification_signals(answers, labels, of_outputs(names_of(CLASSIFICATION))).items():
        assert values.isfinite().all(), name


@pytest.mark.parametrize("outputs", FILTERS, ids=str)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_diverged_model_does_not_look_sane(outputs: OutputFilter, wrong: float) -> None:
    logits = LOGITS.clone()
    logits[3, 2] = wrong
    answers = filtered(logits, outputs, LOGITS)
    assert answers[3].isnan().all() and answers[4].isfinite().all()


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 2**31))
def test_a_finer_rounding_is_closer_to_the_probabilities(n_classes: int, digits: int, seed: int) -> None:
    logits = torch.from_numpy(np.random.default_rng(seed).normal(scale=3, size=(1, n_classes)))
    p = logits.softmax(-1)
    answer = filtered(logits, OutputFilter(digits=digits)).double().exp()
    floor = max(10.0**-digits / 2, 1e-6)
    assert (answer - p).abs().max() <= floor + 2e-5


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"temperature": 0.0}, "temperature=0.0: must be a number above 0"),
        ({"temperature": float("nan")}, "must be a number above 0"),
        ({"temperature": "2"}, "temperature='2': must be a number above 0"),
        ({"digits": 1.5}, "digits=1.5: must be in"),
        ({"top_1": 1}, "top_1=1: must be true or false"),
        ({"digits": 0}, r"digits=0: must be in 1\.\.6"),
        ({"digits": 7}, r"must be in 1\.\.6"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(wrong: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        OutputFilter(**wrong)  # type: ignore[arg-type]


def test_a_whole_number_is_the_same_temperature() -> None:
    assert repr(OutputFilter(temperature=2)) == repr(OutputFilter(temperature=2.0))


def test_a_filter_describes_itself() -> None:
    assert str(OutputFilter(top_1=True, digits=2)) == "the predicted class alone"
    assert str(OutputFilter(2.0, digits=1)) == "probabilities at temperature 2, rounded to 1 digit"
    assert str(OutputFilter(random_values=True)).endswith("of random inputs, in the order of the classes")
