"""The promise: fed up to half of training, the monitor's top 5% hold 3 times as many exposed as chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import leakscope
from leakscope.attacks.eb_lira import EbLira
from leakscope.design import make_design
from leakscope.dynamics.monitor import Monitor
from leakscope.hardness.in_out_mean import side_mean
from leakscope.train.loop import inputs_from, train_block
from leakscope.types import Signals
from tests.dynamics.banks import shared_bank

SHARE = 0.05


def truth_of(signals, design):
    """Mean leave-one-out score of the models that saw the record minus of those that did not; (records,)."""
    scores = EbLira()(signals, design, np.arange(design.n_models)).values
    return side_mean(scores, design.in_mask) - side_mean(scores, ~design.in_mask)


def lift_at_half(losses, epochs, truth):
    """Of one model; losses (checkpoints, members), truth (members,)."""
    monitor = Monitor(len(truth))
    for epoch, values in zip(epochs, losses, strict=True):
        if epoch <= epochs[-1] / 2:
            monitor.update(values)
    n_exposed = round(SHARE * len(truth))
    exposed = np.argsort(-truth, kind="stable")[:n_exposed]
    return np.isin(monitor.top(SHARE), exposed).mean() / (n_exposed / len(truth))


def lifts(loss, signals, design, models):
    truth = truth_of(signals, design)
    members = [design.in_mask[m] for m in models]
    return [
        lift_at_half(loss[m][:, own], signals.epochs, truth[own])
        for m, own in zip(models, members, strict=True)
    ]


@pytest.mark.slow
def test_on_a_bank_of_digits_and_not_on_shuffled_losses():
    records = leakscope.load("digits")
    design = make_design("balanced", 16, len(records), seed=0)
    recipe = leakscope.Recipe(
        net="mlp", net_options=(("width", 64),), lr=0.005, epochs=24, checkpoints=tuple(range(1, 25))
    )
    inputs = inputs_from(records, torch.device("cpu"))
    answers = train_block(inputs, design, recipe, np.arange(16), 0, ("log_odds", "loss"), "dense").signals
    signals = Signals(answers, recipe.checkpoints, records.labels)
    lift_of_models = lifts(answers["loss"], signals, design, range(16))
    assert np.mean(lift_of_models) > 6 and min(lift_of_models) > 3
    rng = np.random.default_rng(0)
    by_chance = lifts(rng.permuted(answers["loss"], axis=2), signals, design, range(16))
    assert np.mean(by_chance) < 2


@pytest.mark.slow
def test_on_a_bank_of_wide_resnets_on_cifar10():
    signals, design = shared_bank()
    loss = np.logaddexp(0, -signals.arrays["log_odds"])
    lift_of_models = lifts(loss, signals, design, range(0, design.n_models, 11))
    assert len(lift_of_models) == 4 and min(lift_of_models) > 6
