"""Audits never prove more than DP-SGD claims; benchmarks/dp_audited_epsilon.py repeats it 50 times."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from leakscope.privacy.accounting import noise_multiplier
from leakscope.privacy.settings import Privacy, Sampling

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "dp_audited_epsilon.py"


@pytest.fixture(scope="module")
def audited():
    return runpy.run_path(str(BENCHMARK))["audited"]


@pytest.mark.slow
@pytest.mark.parametrize("claim", [1.0, 8.0])
def test_no_bound_is_above_the_claim(audited, claim):
    found = [audited(Privacy(epsilon=claim), seed) for seed in range(100, 104)]
    assert max(max(f.median_bound, f.pooled_bound) for f in found) <= claim


@pytest.mark.slow
def test_the_attack_sees_what_the_noise_hides(audited):
    """Else any claim would pass: with a tenth of its noise, the claim of epsilon 1 is exceeded."""
    sigma = noise_multiplier(Privacy(epsilon=1.0), Sampling(75, 75, 1.0, 1), 4)
    wrong = [audited(Privacy(noise_multiplier=sigma / 10), seed) for seed in range(100, 104)]
    assert np.min([f.pooled_bound for f in wrong]) > 1.0
