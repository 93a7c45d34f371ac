import numpy as np
import pytest

from leakscope.attacks.calibrated import Calibrated
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.attacks.spec import resolve
from leakscope.dynamics.decisions import called, check_fpr, decide, rule_text
from leakscope.errors import InputError
from leakscope.types import Design, Signals
from tests.dynamics.banks import EPOCHS, rising_bank


def test_each_checkpoint_is_attacked_as_if_training_had_stopped_there():
    signals, design = rising_bank((0.0, 1.0, 3.0), n_models=8, n_records=50)
    decisions = decide(Lira(), signals, design)
    assert decisions.is_called.shape == (8, 3, 50)
    assert decisions.epochs == EPOCHS[:3]
    for checkpoint in range(3):
        cut = Signals({"log_odds": signals.arrays["log_odds"][:, : checkpoint + 1]}, (1,), signals.labels)
        np.testing.assert_array_equal(decisions.is_called[:, checkpoint], Lira()(cut, design).values > 0)


def test_the_threshold_at_an_fpr_comes_from_the_other_models():
    rng = np.random.default_rng(0)
    scores, in_mask = rng.normal(size=(5, 40)), rng.random((5, 40)) < 0.5
    decisions = called(scores, in_mask, 0.1)
    for model in range(5):
        others = np.delete(np.arange(5), model)
        outside = np.sort(scores[others][~in_mask[others]])
        n_allowed = int(0.1 * len(outside))
        np.testing.assert_array_equal(decisions[model], scores[model] > outside[-n_allowed - 1])


def test_the_chosen_fpr_is_reached_on_average():
    signals, design = rising_bank((1.0, 2.0), n_models=16, n_records=500)
    decisions = decide(Calibrated(), signals, design, 0.1)
    for checkpoint in range(2):
        assert decisions.is_called[:, checkpoint][~design.in_mask].mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("name", ["calibrated", "rmia", "reference", "quantile"])
def test_zero_means_nothing_to_attacks_without_a_log_ratio(name):
    signals, design = rising_bank((1.0,), n_models=8, n_records=40)
    attack = resolve(name)
    with pytest.raises(InputError, match=r"not a log likelihood ratio.*fpr=0.1"):
        decide(attack, signals, design)
    assert decide(attack, signals, design, 0.2).is_called.any()


def test_offline_lira_has_no_log_ratio_and_eb_lira_has():
    signals, design = rising_bank((1.0,), n_models=8, n_records=40)
    with pytest.raises(InputError, match="not a log likelihood ratio"):
        decide(Lira(online=False), signals, design)
    np.testing.assert_array_equal(
        decide(EbLira(), signals, design).is_called[:, 0], EbLira()(signals, design).values > 0
    )


def test_rules_describe_themselves():
    assert rule_text(None) == "log ratio > 0"
    assert rule_text(0.001) == "threshold at 0.10% FPR of the other models' non-members"
    with pytest.raises(InputError, match=r"fpr=1\.5"):
        check_fpr(1.5)


def test_what_cannot_be_decided_is_refused():
    signals, design = rising_bank((1.0,), n_models=4, n_records=10)
    with pytest.raises(InputError, match=r"fpr=0.01: .*choose a higher one"):
        decide(Lira(), signals, design, 0.01)
    with pytest.raises(InputError, match="the same records"):
        decide(Lira(), signals, Design(design.in_mask, np.tile(np.arange(10), (4, 1))))
    two = np.arange(2)
    with pytest.raises(InputError, match="at least 3"):
        decide(Lira(), signals.take(two), design.take(two))
    other = Signals({"loss": signals.arrays["log_odds"]}, signals.epochs, signals.labels)
    with pytest.raises(InputError, match="no signal 'log_odds'"):
        decide(Lira(), other, design)
