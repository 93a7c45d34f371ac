"""The interval of a difference of two populations holds the true one, and one that is large is detected.

Populations are made up: the log-odds of a record are its difficulty, plus a gap where it is a member, plus
noise of which the two populations share a part, as models do that have the same members and seed. Some models
overfit more than others, which all of their records have in common.
"""

import numpy as np
import pytest
from scipy import special

from leakscope.attacks.spec import resolve_all
from leakscope.design import make_design
from leakscope.evaluate.attacked import converged_models
from leakscope.studies.defences.config import DefencesConfig, Tried
from leakscope.studies.defences.figures import PopulationFigures, population_figures
from leakscope.studies.defences.judge import _populations
from leakscope.types import Signals
from tests.made_up_audits import made_up_bank

N_RECORDS, N_MODELS = 120, 8
RECORDS = np.arange(N_RECORDS)
DIFFICULTY = 1 + np.random.default_rng(1).normal(0, 1.5, N_RECORDS)
SHARED, OWN = 0.8, 0.6  # standard deviations of the noise; together 1
ROUGH, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


def populations(seed: int, gaps: tuple[float, float], spread: float, attacks: str) -> list[PopulationFigures]:
    """Two populations of one design."""
    rng = np.random.default_rng([seed, 7])
    design = make_design("balanced", N_MODELS, N_RECORDS, seed)
    shared = rng.normal(0, SHARED, design.in_mask.shape)
    measured = []
    for gap in gaps:
        overfits = np.exp(spread * rng.normal(size=(N_MODELS, 1)))
        log_odds = DIFFICULTY + gap * overfits * design.in_mask + shared + rng.normal(0, OWN, shared.shape)
        arrays = {
            "correct": log_odds > 0,
            "log_odds": log_odds.astype(np.float32),
            "loss": np.logaddexp(0, -log_odds).astype(np.float32),
        }
        signals = Signals({name: a[:, None] for name, a in arrays.items()}, (1,), RECORDS % 2)
        named = {attack.label: attack for attack in resolve_all(attacks.split("+"))}
        measured.append(population_figures(signals, design, named, RECORDS, {"some": RECORDS[::2]}, 0.1))
    return measured


def true_auc(gap: float, spread: float) -> float:
    """Of the loss: the chance that a member's log-odds exceed those of another record that is none."""
    apart = np.subtract.outer(DIFFICULTY, DIFFICULTY)[~np.eye(N_RECORDS, dtype=bool)]
    gaps = gap * np.exp(spread * ROUGH)
    chances = [special.ndtr((apart + one) / np.sqrt(2)).mean() for one in gaps]
    return float(np.average(chances, weights=WEIGHTS))


def test_the_true_difference_of_a_made_up_population_is_what_is_estimated():
    """So that the intervals below are held against the right number."""
    gaps = (1.5, 0.5)
    found = [populations(seed, gaps, 0.3, "loss") for seed in range(12)]
    aucs = np.array([[one.population.auc.figure.value for one in pair] for pair in found])
    wanted = [true_auc(gap, 0.3) for gap in gaps]
    errors = aucs.std(axis=0, ddof=1) / np.sqrt(len(aucs))
    assert (np.abs(aucs.mean(axis=0) - wanted) < 4 * errors).all()


@pytest.mark.slow
@pytest.mark.parametrize(("gaps", "spread"), [((1.5, 0.5), 0.3), ((0.5, 0.5), 0.3), ((0.0, 0.0), 0.0)])
def test_intervals_hold_the_true_difference_of_the_loss_attack(gaps, spread):
    """In 88 of 100 populations or more; with 95%, fewer have a chance of 0.4%.

    The mean over targets, whose jackknife this is, was simulated by itself as well: of 1,500 populations
    each, the interval holds in 94.4%, 94.3% and 95.5%.
    """
    truth = true_auc(gaps[1], spread) - true_auc(gaps[0], spread)
    held = {"auc": 0, "accuracy": 0}
    for seed in range(100):
        first, second = populations(seed, gaps, spread, "loss")
        auc = second.population.auc.minus(first.population.auc)
        accuracy = second.utility.minus(first.utility)
        held["auc"] += auc.low <= truth <= auc.high
        held["accuracy"] += accuracy.low <= 0 <= accuracy.high
    assert min(held.values()) >= 88


@pytest.mark.slow
def test_a_defence_that_does_nothing_makes_no_difference():
    """Neither over all records nor on a set of them, with an attack that has references."""
    n_detected = {"population": 0, "some": 0}
    for seed in range(40):
        first, second = populations(seed, (0.8, 0.8), 0.3, "loss+lira")
        pairs = {"population": (first.population, second.population)}
        pairs["some"] = (first.sets["some"], second.sets["some"])
        for name, (one, other) in pairs.items():
            difference = other.auc.minus(one.auc)
            n_detected[name] += not difference.low <= 0 <= difference.high
    assert max(n_detected.values()) <= 5  # 2 expected at 95%; more than 5 have a chance of 1.4%


@pytest.mark.slow
def test_a_large_difference_is_detected():
    """Intervals that hold because they are wide would be of no use."""
    detected = {0.95: 0, 0.999: 0}
    for seed in range(20):
        first, second = populations(seed, (2.5, 0.3), 0.1, "loss+lira")
        for level in detected:
            detected[level] += second.population.auc.minus(first.population.auc, level).high < 0
    assert detected[0.95] >= 19 and detected[0.999] >= 16


LABELS = np.random.default_rng(3).normal(0, 2, N_RECORDS).astype(np.float32)
RESIDUALS = np.random.default_rng(1).normal(0, 1, N_RECORDS)


def regressions(seed: int, errors: tuple[float, float], spread: float) -> list[PopulationFigures]:
    """Two populations that predict numbers: a record's residual, plus noise that they share in part."""
    rng = np.random.default_rng([seed, 7])
    design = make_design("balanced", N_MODELS, N_RECORDS, seed)
    shared = rng.normal(0, SHARED, design.in_mask.shape)
    measured = []
    for error in errors:
        sizes = error * np.exp(spread * rng.normal(size=(N_MODELS, 1)))
        residuals = RESIDUALS + sizes * (shared + rng.normal(0, OWN, shared.shape))
        signals = Signals({"loss": (residuals**2).astype(np.float32)[:, None]}, (1,), LABELS)
        named = {attack.label: attack for attack in resolve_all(["loss"])}
        measured.append(population_figures(signals, design, named, RECORDS, {"some": RECORDS[::2]}, 0.1))
    return measured


@pytest.mark.slow
def test_intervals_hold_the_true_difference_in_r_squared():
    """In 32 of 40 populations or more.

    Errors of the models differ by a third from each other. Of 150 populations, the interval held in 91%; then
    fewer than 32 have a chance of 0.6%. It held in 97% where both populations had equal errors.
    """
    spread, errors = 0.3, (1.0, 0.5)
    squares = [error**2 * np.exp(2 * spread**2) for error in errors]  # of a lognormal factor
    truth = (squares[0] - squares[1]) / np.var(LABELS, dtype=np.float64)
    n_held = 0
    for seed in range(40):
        first, second = regressions(seed, errors, spread)
        difference = second.utility.minus(first.utility)
        n_held += difference.low <= truth <= difference.high
        assert difference.low > -0.5 and difference.value > 0
    assert n_held >= 32


def test_models_that_diverged_with_any_defence_stay_known_to_attacks(tmp_path):
    """Each setting has the figures that it has where the models diverged in that setting itself."""
    gone, of_canaries = (3, 6, 7, 12), np.zeros(N_RECORDS, dtype=np.bool_)
    banks = [made_up_bank(tmp_path / name, 0.0, diverged=ids) for name, ids in (("none", ()), ("one", gone))]
    tried = (Tried("none", "none"), Tried("dropout", "dropout"))
    config = DefencesConfig("made up", tried, models=16, attacks=("lira",), fpr=0.1)
    own = _populations(config, banks, np.flatnonzero(~of_canaries), {}).figures
    (named,) = resolve_all(config.attacks)
    expected = population_figures(*converged_models(banks[1]), {"lira": named}, np.arange(N_RECORDS), {}, 0.1)
    for figures in own:
        assert figures.population.auc.figure == expected.population.auc.figure
