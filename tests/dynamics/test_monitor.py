"""The monitor: definition, memory, invalid updates, and a real training run."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leakscope
from leakscope.dynamics.monitor import Monitor
from leakscope.errors import InputError


def fed(losses, **options):
    """A monitor that has seen losses (epochs, records)."""
    monitor = Monitor(losses.shape[1], **options)
    for epoch in losses:
        monitor.update(epoch)
    return monitor


def array_bytes(monitor):
    """Memory of all arrays a monitor holds, itself or in its parts."""
    held = vars(monitor).values()
    return sum(v.nbytes if isinstance(v, np.ndarray) else array_bytes(v) if hasattr(v, "__dict__") else 0
               for v in held)  # fmt: skip


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 30))
def test_exposure_is_its_definition(seed, n_epochs, n_records):
    losses = np.random.default_rng(seed).exponential(1, (n_epochs, n_records))
    root = np.sqrt(losses)
    expected = root.sum(axis=0) / root.mean(axis=1).sum()
    monitor = fed(losses)
    np.testing.assert_allclose(monitor.exposure(), expected)
    assert monitor.exposure().mean() == pytest.approx(1)
    np.testing.assert_array_equal(monitor.ranking(), np.argsort(-monitor.exposure(), kind="stable"))


def test_the_unit_of_the_loss_does_not_matter():
    losses = np.random.default_rng(0).exponential(1, (9, 50))
    np.testing.assert_allclose(fed(losses).exposure(), fed(1e6 * losses).exposure())


def test_records_seen_at_different_times_are_compared_fairly():
    # All records are alike, the loss falls, and half of the records join late or leave early.
    rng = np.random.default_rng(0)
    monitor = Monitor(3000)
    for epoch in range(30):
        present = np.concatenate([np.arange(1000)] + [np.arange(1000, 2000)] * (epoch >= 15)
                                 + [np.arange(2000, 3000)] * (epoch < 15))  # fmt: skip
        monitor.update(np.exp(-epoch / 5) * rng.exponential(1, len(present)), present)
    for group in np.split(monitor.exposure(), 3):
        assert group.mean() == pytest.approx(1, abs=0.05)


def test_order_of_indices_does_not_matter():
    losses = np.arange(5.0)
    order = np.array([3, 1, 4, 0, 2])
    one, other = Monitor(5), Monitor(5)
    one.update(losses)
    other.update(losses[order], order)
    np.testing.assert_allclose(one.exposure(), other.exposure(), rtol=1e-14)
    np.testing.assert_array_equal(one.spread(), other.spread())


def test_top_and_ranking_with_ties_and_unseen_records():
    monitor = Monitor(6)
    monitor.update([1.0, 4.0, 4.0, 0.0], indices=[0, 1, 3, 5])
    np.testing.assert_array_equal(monitor.ranking(), [1, 3, 0, 5])
    np.testing.assert_array_equal(monitor.top(0.5), [1, 3])
    np.testing.assert_array_equal(monitor.top(0.01), [1])
    np.testing.assert_array_equal(np.isnan(monitor.exposure()), [False, False, True, False, True, False])


def test_nothing_seen_and_nothing_to_tell():
    monitor = Monitor(3)
    assert np.isnan(monitor.exposure()).all() and np.isnan(monitor.spread()).all()
    assert len(monitor.ranking()) == len(monitor.top(1)) == 0
    monitor.update(np.zeros(3))
    assert np.isnan(monitor.exposure()).all()
    monitor.update(np.ones(3))
    np.testing.assert_array_equal(monitor.exposure(), 1)


def test_the_spread_is_the_interquartile_range_of_the_stored_epochs():
    losses = np.random.default_rng(0).exponential(1, (16, 20))
    low, high = np.quantile(losses, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(fed(losses).spread(), high - low, rtol=0.01, atol=2e-3)  # half precision
    monitor = Monitor(2)
    for epoch in range(5):
        monitor.update([float(epoch)], indices=[0])
    np.testing.assert_allclose(monitor.spread(), [2, np.nan])


def test_the_spread_of_records_with_gaps_is_that_of_the_epochs_they_have():
    rng = np.random.default_rng(0)
    losses = rng.integers(0, 50, (20, 40)).astype(float)  # exact in half precision
    present = rng.random((20, 40)) < np.linspace(0, 1, 40)
    present[:, 1] = np.arange(20) == 7  # one look only
    monitor = Monitor(40)
    for epoch, seen in zip(losses, present, strict=True):
        monitor.update(epoch[seen], np.flatnonzero(seen))
    spread = monitor.spread()
    for record in range(40):
        own = losses[present[:, record], record]
        expected = np.subtract(*np.quantile(own, [0.75, 0.25])) if len(own) else np.nan
        np.testing.assert_allclose(spread[record], expected)
    assert np.isnan(spread[0]) and spread[1] == 0


def test_the_trace_thins_out_evenly():
    monitor = Monitor(1, trace_length=4)
    stored = {4: (1, 2, 3, 4), 5: (1, 3, 5), 6: (1, 3, 5), 7: (1, 3, 5, 7), 9: (1, 5, 9), 17: (1, 9, 17)}
    for epoch in range(1, 18):
        monitor.update([float(epoch)])
        if epoch in stored:
            low, high = np.quantile(stored[epoch], [0.25, 0.75])
            assert monitor.spread() == pytest.approx(high - low), epoch


def test_memory_is_the_documented_formula_whatever_the_number_of_epochs():
    monitor = Monitor(1_000_000)
    assert array_bytes(monitor) == 1_000_000 * (16 + 2 * 32) == 80_000_000
    small = fed(np.ones((500, 10)))
    assert array_bytes(small) == 10 * 80


def test_tensors_are_taken_as_they_are():
    losses = torch.tensor([1.0, 4.0, 9.0], requires_grad=True)
    monitor = Monitor(4)
    monitor.update(losses * 1, indices=torch.tensor([2, 0, 1]))
    monitor.update(torch.tensor([4.0, 9.0, 1.0], dtype=torch.bfloat16), [0, 1, 2])
    np.testing.assert_allclose(monitor.exposure(), [1, 1.5, 0.5, np.nan])


def test_losses_beyond_half_precision_are_stored_as_its_largest_number():
    monitor = fed(np.array([[1e9, 1.0], [0.0, 1.0], [1e9, 1.0], [0.0, 1.0]]))
    assert monitor.spread()[0] == pytest.approx(65504)
    assert monitor.ranking()[0] == 0


@pytest.mark.parametrize(
    ("losses", "indices", "said"),
    [
        ([1.0, 2.0], None, r"losses has shape \(2,\); give one number for each of 3 records"),
        ([[1.0, 2.0, 3.0]], None, "losses has shape"),
        ([1.0], [0, 1], "for each of 2 indices"),
        ([1.0, 2.0], [0, 3], r"within 0\.\.2"),
        ([1.0, 2.0], [-1, 1], r"within 0\.\.2"),
        ([1.0, 2.0], [0.0, 1.0], "must be a vector of integers"),
        ([1.0, 2.0], [1, 1], "a record twice"),
        ([], [], "losses has shape"),
        ([1.0, np.nan, 2.0], None, "1 of 3 losses are NaN, infinite or below 0"),
        ([1.0, np.inf, -2.0], None, "2 of 3 losses"),
    ],
)
def test_a_wrong_update_is_refused_and_changes_nothing(losses, indices, said):
    monitor = fed(np.array([[1.0, 2.0, 3.0]]))
    before, spread = monitor.exposure(), monitor.spread()
    with pytest.raises(InputError, match=said):
        monitor.update(losses, indices)
    np.testing.assert_array_equal(monitor.exposure(), before)
    np.testing.assert_array_equal(monitor.spread(), spread)
    assert monitor.epochs == 1


@pytest.mark.parametrize("arguments", [(0,), (5, 3), (5, 2)])
def test_a_monitor_of_nothing_is_refused(arguments):
    with pytest.raises(InputError, match="must be"):
        Monitor(*arguments)
    with pytest.raises(InputError, match="share=0"):
        Monitor(1).top(0)


def test_it_needs_no_torch():
    code = "import leakscope, sys; leakscope.Monitor(3).update([1, 2, 3]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_in_a_real_run_wrong_labels_rank_first_and_chance_does_not():
    # Records whose label was flipped can only be memorised: the plainest case of exposure.
    rng = np.random.default_rng(0)
    digits = leakscope.load("digits")
    x, y = torch.from_numpy(digits.features), torch.from_numpy(digits.labels.copy())
    flipped = rng.choice(len(y), 90, replace=False)
    y[flipped] = (y[flipped] + torch.from_numpy(rng.integers(1, 10, 90))) % 10
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    monitor = Monitor(len(y))
    for _ in range(10):
        losses = torch.empty(len(y))
        for rows in torch.randperm(len(y)).split(64):
            batch = torch.nn.functional.cross_entropy(net(x[rows]), y[rows], reduction="none")
            optimizer.zero_grad()
            batch.mean().backward()
            optimizer.step()
            losses[rows] = batch.detach()
        monitor.update(losses)
    precision = np.isin(monitor.top(0.05), flipped).mean()
    assert precision > 0.8  # chance: 0.05
    innocent = rng.choice(np.setdiff1d(np.arange(len(y)), flipped), 90, replace=False)
    assert np.isin(monitor.top(0.05), innocent).mean() < 0.15
