"""The two attacks that need no other model."""

import numpy as np
import pytest

from leakscope.attacks.thresholds import Correctness, LossThreshold
from leakscope.stats.roc import advantage, auc, roc
from leakscope.testing import planted_bank


def test_correctness_scores_right_answers_one_and_wrong_ones_zero():
    signals, design = planted_bank(gap=2.0, n_models=4, n_records=40)
    scores = Correctness()(signals, design, np.array([2])).values
    predicted = signals.arrays["logits"][2, 0].argmax(axis=-1)
    np.testing.assert_array_equal(scores[0], predicted == signals.labels)


def test_the_advantage_of_correctness_is_the_accuracy_gap():
    signals, design = planted_bank(gap=2.0, n_models=4, n_records=100)
    scores = Correctness()(signals, design).values
    for values, members in zip(scores, design.in_mask, strict=True):
        gap = values[members].mean() - values[~members].mean()
        assert gap > 0
        np.testing.assert_allclose(auc(values, members), 0.5 + gap / 2)
        np.testing.assert_allclose(advantage(roc(values, members)), gap)


def test_a_smaller_loss_is_a_higher_score():
    signals, design = planted_bank(gap=2.0, n_models=4, n_records=40)
    scores = LossThreshold()(signals, design).values
    np.testing.assert_array_equal(scores, -signals.arrays["loss"][:, 0].astype(np.float64))


@pytest.mark.parametrize("attack", [Correctness(), LossThreshold()], ids=lambda a: a.name)
def test_records_the_model_answers_worse_are_not_called_members(attack):
    """Without other models to learn from, the direction of a score is fixed."""
    signals, design = planted_bank(gap=-3.0)
    scores = attack(signals, design).values
    assert max(auc(values, members) for values, members in zip(scores, design.in_mask, strict=True)) < 0.45
