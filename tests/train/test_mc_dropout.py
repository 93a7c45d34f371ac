"""Passes with dropout on: what varies, what does not, and that they see doubt where there is some."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from leakscope.errors import InputError
from leakscope.hardness.uncertainty import uncertainty
from leakscope.train import mc_dropout
from leakscope.train.dropout import seed_dropout
from leakscope.train.mc_dropout import mc_dropout_probabilities


def net_with(p: float) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(p), nn.Linear(40, 2))


X = torch.randn(30, 3, generator=torch.Generator().manual_seed(2))


def test_passes_differ_and_their_seed_decides():
    net = net_with(0.5)
    state = {name: t.clone() for name, t in net.state_dict().items()}
    first, again, other = (mc_dropout_probabilities(net, X, 4, seed) for seed in (1, 1, 2))
    assert first.shape == (4, 30, 2)
    np.testing.assert_allclose(first.sum(axis=2), 1, rtol=1e-6)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first[0] != first[1]).any()
    for name, tensor in net.state_dict().items():  # batch norm's statistics did not move either
        torch.testing.assert_close(tensor, state[name])
    assert net.training


def test_a_net_whose_dropout_is_seeded_already_gives_the_same():
    plain, seeded = net_with(0.5), net_with(0.5)
    seed_dropout(seeded, 99)
    np.testing.assert_array_equal(
        mc_dropout_probabilities(plain, X, 3, 5), mc_dropout_probabilities(seeded, X, 3, 5)
    )


def test_the_mean_pass_of_a_linear_head_is_the_net_without_dropout():
    # Dropout before a linear layer leaves its expected output unchanged.
    net = net_with(0.3).eval()
    logits = np.log(mc_dropout_probabilities(net, X, 3000, 0))
    margin = (logits[..., 1] - logits[..., 0]).mean(axis=0)
    with torch.no_grad():
        expected = (net(X)[:, 1] - net(X)[:, 0]).numpy()
    np.testing.assert_allclose(margin, expected, atol=0.03)


def test_rows_go_in_parts_and_come_back_in_order(monkeypatch):
    whole = mc_dropout_probabilities(net_with(0.0001), X, 2, 0)
    monkeypatch.setattr(mc_dropout, "_ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(mc_dropout_probabilities(net_with(0.0001), X, 2, 0), whole, atol=0.05)


def test_more_dropout_more_epistemic_uncertainty():
    little, much = (
        uncertainty(mc_dropout_probabilities(net_with(p), X, 50, 0)).epistemic for p in (0.05, 0.6)
    )
    assert much.mean() > 3 * little.mean() > 0


def test_a_net_without_dropout_is_refused():
    with pytest.raises(InputError, match="no dropout layer"):
        mc_dropout_probabilities(nn.Linear(3, 2), X, 2, 0)
    with pytest.raises(InputError, match="no dropout layer"):
        mc_dropout_probabilities(net_with(0.0), X, 2, 0)
    with pytest.raises(InputError, match="n_passes=0"):
        mc_dropout_probabilities(net_with(0.5), X, 0, 0)
