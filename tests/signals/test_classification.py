import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from leakscope.signals.functions import classification_signals, log_odds
from leakscope.signals.registry import CLASSIFICATION, find_signal, names_of, of_outputs

CLASSIFICATION_SIGNALS = of_outputs(names_of(CLASSIFICATION))


def naive(z, y):
    """Every signal of one record by its definition, from a float64 softmax."""
    z = np.asarray(z, dtype=np.float64)
    p = np.exp(z) / np.exp(z).sum()
    wrong = np.arange(len(z)) != y
    first, second = np.sort(p)[::-1][:2]
    return {
        "loss": -np.log(p[y]),
        "log_odds": np.log(p[y] / p[wrong].sum()),
        "true_prob": p[y],
        "true_logit": z[y],
        "max_logit": z.max(),
        "max_prob": p.max(),
        "entropy": -(p * np.log(p)).sum(),
        "modified_entropy": -(1 - p[y]) * np.log(p[y]) - (p[wrong] * np.log(1 - p[wrong])).sum(),
        "top2_margin": first - second,
        "correct": z.argmax() == y,
        "gradient_proxy": np.linalg.norm(p - ~wrong),
        "logits": z,
    }


def signals_of(z, y, names=CLASSIFICATION_SIGNALS):
    signals = classification_signals(torch.as_tensor(z), torch.as_tensor(y), names)
    return {name: values.numpy() for name, values in signals.items()}


moderate_logits = st.integers(2, 6).flatmap(
    lambda n: st.tuples(hnp.arrays(np.float64, n, elements=st.floats(-6, 6)), st.integers(0, n - 1))
)


@given(moderate_logits)
def test_every_signal_is_its_definition(record):
    z, y = record
    found, wanted = signals_of(z[None], np.array([y])), naive(z, y)
    assert set(found) == set(wanted) == set(CLASSIFICATION_SIGNALS)
    for name, values in found.items():
        np.testing.assert_allclose(values[0], wanted[name], rtol=1e-7, atol=1e-12, err_msg=name)


def test_leading_axes_are_kept():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(2, 3, 4)), rng.integers(0, 4, size=(2, 3))
    found = signals_of(z, y)
    for at in np.ndindex(2, 3):
        for name, wanted in naive(z[at], y[at]).items():
            np.testing.assert_allclose(found[name][at], wanted, rtol=1e-9, err_msg=name)
    assert found["logits"].shape == (2, 3, 4)
    assert found["correct"].dtype == bool


def test_only_the_named_signals_are_returned():
    assert list(signals_of(np.zeros((1, 2)), np.zeros(1, dtype=np.int64), ("loss", "correct"))) == [
        "loss",
        "correct",
    ]


BIG = 1e4
EXTREME = {
    # The label wins by 2e4: probability one to any float.
    "sure and right": ([BIG, -BIG, -BIG], 0, {
        "loss": 0, "log_odds": 2 * BIG - np.log(2), "true_prob": 1, "true_logit": BIG, "max_logit": BIG,
        "max_prob": 1, "entropy": 0, "modified_entropy": 0, "top2_margin": 1, "correct": True,
        "gradient_proxy": 0,
    }),
    # Another class wins by 2e4; both terms of the modified entropy are about 2e4.
    "sure and wrong": ([BIG, -BIG, -BIG], 1, {
        "loss": 2 * BIG, "log_odds": -2 * BIG, "true_prob": 0, "true_logit": -BIG, "max_logit": BIG,
        "max_prob": 1, "entropy": 0, "modified_entropy": 4 * BIG - np.log(2), "top2_margin": 1,
        "correct": False, "gradient_proxy": np.sqrt(2),
    }),
    "torn between two": ([BIG, BIG, -BIG], 0, {
        "loss": np.log(2), "log_odds": 0, "true_prob": 0.5, "true_logit": BIG, "max_logit": BIG,
        "max_prob": 0.5, "entropy": np.log(2), "modified_entropy": np.log(2), "top2_margin": 0,
        "correct": True, "gradient_proxy": np.sqrt(0.5),
    }),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", EXTREME)
def test_extreme_logits_give_the_exact_limit(case, dtype):
    z, y, wanted = EXTREME[case]
    found = signals_of(torch.tensor([z], dtype=dtype), np.array([y]))
    for name, value in wanted.items():
        np.testing.assert_allclose(float(found[name][0]), value, rtol=1e-6, atol=1e-12, err_msg=name)


@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(-BIG, BIG, width=32)), st.integers(0, 3))
def test_no_logits_make_a_signal_undefined(z, y):
    for name, values in signals_of(z, np.full(3, y)).items():
        assert np.isfinite(values).all(), name


@pytest.mark.parametrize("name", ["loss", "log_odds", "modified_entropy", "gradient_proxy"])
def test_float32_keeps_its_digits_where_the_model_is_almost_sure(name):
    """Members sit there: 1 - p would round to nothing and tie them all."""
    z = np.array([[9.0, 0, 0, 0.5], [14, 1, 0, -1], [18, 0, 0.5, 1], [40, 1, 0, 3]], dtype=np.float32)
    y = np.zeros(4, dtype=np.int64)
    exact = signals_of(z.astype(np.float64), y)[name]
    np.testing.assert_allclose(signals_of(z, y)[name], exact, rtol=2e-6)


@pytest.mark.parametrize("name", [n for n in CLASSIFICATION_SIGNALS if n != "logits"])
def test_direction_says_how_a_better_fit_moves_the_signal(name):
    """Raising the label's logit is what training on a record does."""
    better = np.zeros((8, 3))
    better[:, 0], better[:, 1] = np.linspace(-2, 6, 8), 0.3
    steps = np.diff(signals_of(better, np.zeros(8, dtype=np.int64))[name].astype(float))
    # Signals that ignore the label only follow once the label leads.
    without_label = ("max_logit", "max_prob", "entropy", "top2_margin")
    steps = steps[3:] if name in without_label else steps
    sign = {"low": -1, "high": 1}[find_signal(name, CLASSIFICATION).direction]
    assert (sign * steps >= 0).all()
    assert (sign * steps > 0).any()


def test_correct_at_a_tie_takes_the_first_class_like_a_prediction_would():
    assert signals_of(np.zeros((3, 3)), np.arange(3))["correct"].tolist() == [True, False, False]


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_two_classes_have_the_logit_difference_as_log_odds(a, b):
    found = log_odds(torch.tensor([[a, b]], dtype=torch.float64), torch.tensor([1]))
    assert float(found[0]) == pytest.approx(b - a, abs=1e-12)


@settings(max_examples=30)
@given(moderate_logits, st.floats(-100, 100))
def test_a_shift_of_all_logits_changes_no_probability(record, shift):
    z, y = record
    as_is, shifted = signals_of(z[None], np.array([y])), signals_of(z[None] + shift, np.array([y]))
    for name in set(CLASSIFICATION_SIGNALS) - {"true_logit", "max_logit", "logits", "correct"}:
        np.testing.assert_allclose(shifted[name], as_is[name], rtol=1e-9, atol=1e-10, err_msg=name)
