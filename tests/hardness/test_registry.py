"""All measures at once, on a population whose hardness is known; and their correlations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from leakscope.errors import InputError
from leakscope.hardness.correlations import correlate
from leakscope.hardness.registry import MEASURES, gradient_measures, measured
from leakscope.stats.correlation import spearman
from leakscope.types import Design, Signals

EPOCHS = tuple(range(1, 21))


def population(n_models=24, n_records=150, seed=0):
    """Records of rising difficulty: harder ones are learned later, and only where they are in."""
    rng = np.random.default_rng(seed)
    difficulty = np.linspace(0, 1, n_records)
    in_mask = np.argsort(rng.random((n_models, n_records)), axis=0) < n_models // 2
    time = np.array(EPOCHS)[None, :, None] / EPOCHS[-1]
    start = 0.8 * difficulty + 0.05 * rng.standard_normal((n_models, 1, n_records))
    fitted = 10 * (time - start) * in_mask[:, None] + (4 - 5 * difficulty) * time * ~in_mask[:, None]
    noise = (0.2 + difficulty) * rng.standard_normal((n_models, 1, n_records))
    noise = noise + difficulty * rng.standard_normal(fitted.shape)
    logits = np.stack([fitted + noise, np.zeros_like(fitted), -np.ones_like(fitted)], axis=3)
    log_odds = logits[..., 0] - special.logsumexp(logits[..., 1:], axis=3)
    arrays = {
        "logits": logits,
        "log_odds": log_odds,
        "loss": np.logaddexp(0, -log_odds),
        "correct": logits.argmax(axis=3) == 0,
    }
    return Signals(arrays, EPOCHS, np.zeros(n_records, dtype=np.int64)), Design(in_mask), difficulty


def test_every_measure_finds_the_hard_records():
    signals, design, difficulty = population()
    hardness = measured(signals, design)
    assert list(hardness) == list(MEASURES)
    for name, values in hardness.items():
        assert values.shape == difficulty.shape and values.dtype == np.float64
        assert spearman(values, difficulty).r > 0.5, name


def shuffled(signals, design, rng):
    """Every model's records in an order of its own, so that no record stays hard."""
    order = np.argsort(rng.random(design.in_mask.shape), axis=1)
    arrays = {}
    for name, values in signals.arrays.items():
        index = order.reshape(len(order), 1, -1, *(1,) * (values.ndim - 3))
        arrays[name] = np.take_along_axis(values, index, axis=2)
    return Signals(arrays, EPOCHS, signals.labels), Design(np.take_along_axis(design.in_mask, order, axis=1))


def test_where_no_record_is_hard_no_measure_says_so():
    signals, design, difficulty = population()
    rng = np.random.default_rng(0)
    n_found = dict.fromkeys(MEASURES, 0)
    for _ in range(20):
        for name, hardness in measured(*shuffled(signals, design, rng)).items():
            n_found[name] += spearman(hardness, difficulty).p < 0.05
    assert max(n_found.values()) <= 4  # one is expected; five or more in 20 has probability 0.3%
    assert sum(n_found.values()) <= 20


def test_what_was_not_kept_is_left_out():
    signals, design, _ = population()
    usual = {name: signals.arrays[name] for name in ("correct", "log_odds", "loss")}
    assert set(measured(Signals(usual, EPOCHS, signals.labels), design)) == {
        "epistemic_own_class", "aleatoric_own_class", "predictive_entropy_own_class",
        "epoch_first_learned", "forgetting_events", "loss_trace_spread",
    }  # fmt: skip
    once = {name: values[:, -1:] for name, values in signals.arrays.items()}
    hardness = measured(Signals(once, EPOCHS[-1:], signals.labels), design)
    kinds = ("entropy", "epistemic", "aleatoric", "variance")
    assert all(any(kind in name for kind in kinds) for name in hardness) and len(hardness) == 7


def test_only_models_that_did_not_see_a_record_judge_its_uncertainty():
    signals, design, _ = population()
    before = measured(signals, design)["epistemic"]
    arrays = {name: values.copy() for name, values in signals.arrays.items()}
    seen = np.broadcast_to(design.in_mask[:, None], arrays["logits"].shape[:3])
    arrays["logits"][seen] = 50.0
    after = measured(Signals(arrays, EPOCHS, signals.labels), design)["epistemic"]
    np.testing.assert_array_equal(before, after)


def test_a_record_in_every_model_has_no_uncertainty_to_tell():
    signals, design, _ = population()
    mask = design.in_mask.copy()
    mask[:, 3] = True
    hardness = measured(signals, Design(mask))
    assert np.isnan(hardness["epistemic"][3]) and np.isfinite(hardness["loss_trace_spread"][3])
    vulnerability = np.random.default_rng(0).random(mask.shape[1])
    rows = correlate(
        {"epistemic": hardness["epistemic"]},
        vulnerability,
        np.ones(mask.shape[1], bool),
        vulnerability**2,
    )
    assert rows["epistemic"].pearson.n == mask.shape[1] - 1


def test_gradient_measures_read_early_and_all_along():
    norms = np.array([[[4.0, 1.0], [1.0, 2.0]]])
    hardness = gradient_measures(norms, np.array([1.0, 0.5]), (1, 10), np.array([[True, False]]))
    np.testing.assert_array_equal(hardness["grand"], [4, np.nan])
    np.testing.assert_array_equal(hardness["tracin"], [16.5, np.nan])


def test_correlations_find_what_is_planted_and_nothing_else():
    rng = np.random.default_rng(0)
    n = 3000
    hardness, loss, chance = rng.standard_normal((3, n))
    vulnerability = 0.7 * hardness + 0.5 * loss + 0.5 * rng.standard_normal(n)
    is_vulnerable = vulnerability > 0.5
    measures = {"hard": hardness, "loss_itself": loss + 0.01 * rng.standard_normal(n), "chance": chance}
    rows = correlate(measures, vulnerability, is_vulnerable, loss)
    assert list(rows) == ["hard", "loss_itself", "chance"]
    hard = rows["hard"]
    assert hard.pearson.r == pytest.approx(0.7 / np.sqrt(0.99), abs=0.03)
    assert hard.among_vulnerable.n == is_vulnerable.sum()
    assert 0 < hard.among_vulnerable.r < hard.pearson.r  # a narrower range, a weaker correlation
    assert hard.spearman_among_vulnerable.r > 0.2
    assert hard.partial_given_loss.r > 0.75
    assert rows["loss_itself"].pearson.r > 0.4
    for figure in (rows["loss_itself"].partial_given_loss, *vars(rows["chance"]).values()):
        assert figure.low <= 0 <= figure.high  # the loss itself adds nothing to the loss


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"hard has shape \(3,\)"):
        correlate({"hard": np.ones(3)}, np.ones(4), np.ones(4, bool), np.ones(4))
