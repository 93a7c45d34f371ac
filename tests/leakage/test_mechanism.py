import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from leakscope.errors import InputError
from leakscope.leakage.mechanism import analytic_sigma, classical_sigma, delta_of


@pytest.mark.parametrize(
    ("sigma", "epsilon", "sensitivity"), [(1.0, 0.5, 1.0), (3.0, 0.1, 2.0), (0.5, 4.0, 1.0)]
)
def test_delta_is_what_the_two_gaussians_say(sigma, epsilon, sensitivity):
    """delta = the integral of (p - e^eps q)+."""
    p, q = stats.norm(sensitivity, sigma), stats.norm(0, sigma)
    top = sensitivity + 12 * sigma
    crossing = sensitivity / 2 + epsilon * sigma**2 / sensitivity
    expected = integrate.quad(lambda x: p.pdf(x) - np.exp(epsilon) * q.pdf(x), crossing, top)[0]
    assert delta_of(sigma, epsilon, sensitivity) == pytest.approx(expected, rel=1e-6)


def test_the_classical_rule():
    assert classical_sigma(0.5, 1e-5, 2.0) == pytest.approx(np.sqrt(2 * np.log(1.25e5)) * 2 / 0.5)


@given(st.floats(0.01, 20), st.floats(1e-9, 0.2), st.floats(0.1, 10))
def test_the_analytic_rule_is_private_and_tight_and_below_the_classical_one(epsilon, delta, sensitivity):
    sigma = analytic_sigma(epsilon, delta, sensitivity)
    assert delta_of(sigma, epsilon, sensitivity) <= delta
    assert delta_of(0.999 * sigma, epsilon, sensitivity) > delta
    assert sigma == pytest.approx(sensitivity * analytic_sigma(epsilon, delta, 1.0), rel=1e-9)
    if epsilon < 1:
        assert sigma < classical_sigma(epsilon, delta, sensitivity)


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match=r"epsilon=2\.0: the classical rule holds below 1"):
        classical_sigma(2.0, 1e-5, 1.0)
    with pytest.raises(InputError, match="delta=0"):
        analytic_sigma(1.0, 0, 1.0)
    with pytest.raises(InputError, match="sigma=0"):
        delta_of(0, 1.0, 1.0)
