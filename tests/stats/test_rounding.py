"""Rounded figures fit every number of members, and their intervals still contain the exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.evaluate.results import Figure
from leakscope.stats.rounding import Rounding, round_up


@pytest.mark.parametrize(("value", "above"), [(0.003, 0.005), (0.02, 0.02), (0.0201, 0.05), (7, 10), (1, 1)])
def test_round_up(value: float, above: float) -> None:
    assert round_up(value) == above


@pytest.mark.parametrize("n_records", [20, 57, 100, 199, 400, 999, 10_000])
def test_a_rounded_rate_fits_every_number_of_members_near_half(n_records: int) -> None:
    rounding = Rounding.of(n_records, n_records // 2)
    rates = np.arange(0, 1 + rounding.step, rounding.step)
    for n_members in range(int(0.4 * n_records) + 1, int(0.6 * n_records)):
        nearest = np.rint(rates * n_members) / n_members
        assert np.abs(nearest - rates).max() <= rounding.step / 2 + 1e-9, n_members


def test_the_step_does_not_follow_the_number_of_members() -> None:
    assert len({Rounding.of(400, n_fewer) for n_fewer in range(101, 201)}) == 1
    assert Rounding.of(400, 20).step > Rounding.of(400, 200).step


def test_intervals_contain_the_exact_ones_and_say_nothing_more_about_the_value() -> None:
    rng, rounding = np.random.default_rng(0), Rounding(0.01)
    for value in rng.uniform(0.3, 0.7, 200).tolist():
        half = 0.05 + 0.1 * float(rng.random())
        figure = rounding.figure(Figure(value, value - half, value + half, None, high_99=value + 1.3 * half))
        assert figure.value == pytest.approx(value, abs=0.005 + 1e-9)
        assert figure.low is not None and figure.high is not None and figure.high_99 is not None
        assert figure.low <= value - half and figure.high >= value + half
        assert figure.high_99 >= value + 1.3 * half
        assert figure.high + figure.low == pytest.approx(2 * (figure.value or 0))


def test_ends_of_rates_stay_rates() -> None:
    figure = Rounding(0.1).figure(Figure(0.97, 0.9, 1.0, None))
    assert (figure.value, figure.high) == (1.0, 1.0)
    assert Rounding(0.1).figure(Figure(None, None, None, None)) == Figure(None, None, None, None)


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        ("Every target has at least 193 members and 193 non-members.",
         "Every target has at least 150 members and 150 non-members."),
        ("Every target has at least 1 member and 1 non-member; fewer than 100 give wide intervals.",
         "Every target has at least 0 members and 0 non-members; fewer than 100 give wide intervals."),
        ("It rests on about 1 non-member per target.", "It rests on about 1 non-member per target."),
        ("an FPR of 0.1% is below 1/1,203, the smallest that 1,203 non-members can measure",
         "an FPR of 0.1% is below 1/1,200, the smallest that 1,200 non-members can measure"),
        ("The target was trained on 203 of these records, its reference models on 150 on average.",
         "The target was trained on 200 of these records, its reference models on 150 on average."),
        ("an AUC of 0.617 (99.9% interval 0.543 to 0.688)",
         "an AUC of 0.620 (99.9% interval 0.540 to 0.690)"),
        ("an accuracy of 62.4% on its members", "an accuracy of 62.0% on its members"),
        ("The TPR at 1% FPR rests on about 2 non-members per target.",
         "The TPR at 1% FPR rests on about 2 non-members per target."),
    ],
)  # fmt: skip
def test_sentences_are_rounded(exact: str, rounded: str) -> None:
    assert Rounding.of(400, 200).text(exact) == rounded
