"""How many standard errors the intervals of bits reach to either side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leakscope.leakage.bits import bits_per_record


def half_width_over_error(n_models: int, n_records: int) -> float:
    """Half width of the interval of the mean bits, over that of an interval with the normal quantile."""
    rng = np.random.default_rng(n_models)
    in_mask = np.argsort(rng.random((n_models, n_records)), axis=0) < n_models // 2
    values = rng.normal(size=in_mask.shape) + in_mask
    widths = []
    for quantile in (None, 1.96):
        with pytest.MonkeyPatch.context() as patch:
            if quantile is not None:
                patch.setattr("leakscope.leakage.bits._quantile", lambda *_: stats.norm.ppf(0.975))
            mean = bits_per_record(values, in_mask).means["bits"]
            widths.append(mean.these_high - mean.these_low)
    return widths[0] / widths[1]


@pytest.mark.parametrize("n_models", (16, 64))
def test_a_jackknife_of_16_groups_takes_student_s_quantile(n_models: int) -> None:
    expected = stats.t(15).ppf(0.975) / stats.norm.ppf(0.975)
    assert half_width_over_error(n_models, 200) == pytest.approx(expected)


def test_fewer_models_than_groups_err_on_the_high_side_already() -> None:
    assert half_width_over_error(8, 200) == pytest.approx(1)
