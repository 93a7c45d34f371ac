import numpy as np
import pytest
from scipy import stats

from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.evaluate.rating import WORST_BITS
from leakscope.leakage.bits import bits_per_record, measures, most_exposed_mean
from leakscope.leakage.checkpoints import bank_leakage
from leakscope.leakage.gaussian import Gaussian, symmetric_kl
from leakscope.leakage.inequalities import chain, mutual_information, total_variation
from leakscope.leakage.moderation import Moderated, fit_prior, moderate, moments
from leakscope.leakage.trends import Posterior
from leakscope.types import Design, Signals


def population(n_models, n_records, gap, seed=0, tails=None):
    """Answers, design and true (bits, rho_kl, total variation) of records of very different difficulty."""
    rng = np.random.default_rng(seed)
    hard = rng.gamma(2, 1, n_records)
    out_variance = 0.5 * np.exp(0.4 * hard) * rng.gamma(8, 1 / 8, n_records)
    in_variance = out_variance * (0.8 if gap else 1.0)
    gaps = gap * hard * rng.gamma(2, 0.5, n_records)
    in_mask = rng.random((n_models, n_records)).argsort(axis=0) < n_models // 2
    size = (n_models, n_records)
    noise = (
        rng.standard_normal(size)
        if tails is None
        else rng.standard_t(tails, size) / np.sqrt(tails / (tails - 2))
    )
    own = np.where(
        in_mask, gaps / 2 + np.sqrt(in_variance) * noise, -gaps / 2 + np.sqrt(out_variance) * noise
    )
    return 5 - 2 * hard + own, in_mask, exact_measures(gaps, in_variance, out_variance)


def exact_measures(gap, inside, outside):
    none = np.zeros_like(gap)
    log_ratio = np.log(inside / outside)
    return measures(Moderated(Posterior(gap, none), Posterior(log_ratio, none), np.sqrt(inside * outside)))


def with_unequal_spread(n_models, gaps, rng):
    """Outputs of some records vary ten times as much as those of others; so do their gaps."""
    scale = np.exp(rng.normal(0, 0.5, len(gaps)))
    in_mask = rng.random((n_models, len(gaps))).argsort(axis=0) < n_models // 2
    outputs = scale * (rng.normal(size=in_mask.shape) + gaps * in_mask)
    return 1.5 * rng.normal(size=len(gaps)) + outputs, in_mask


@pytest.mark.parametrize("n_models", [8, 16, 32])
def test_records_that_leak_alike_have_no_most_exposed_ones_by_their_spread(n_models):
    values, in_mask = with_unequal_spread(n_models, np.full(1_000, 0.8), np.random.default_rng(n_models))
    found = bits_per_record(values, in_mask)
    truth = exact_measures(np.array([0.8]), np.ones(1), np.ones(1))[0, 0]
    assert found.means["bits"].these_low < truth < found.means["bits"].these_high
    assert found.most_exposed.low < truth < found.most_exposed.high


@pytest.mark.parametrize(("n_models", "least"), [(8, 0.5), (16, 0.5), (64, 0.65)])
def test_a_few_records_that_leak_much_are_not_drawn_towards_the_others(n_models, least):
    gaps = np.where(np.arange(1_000) < 30, 3.0, 0.2)
    values, in_mask = with_unequal_spread(n_models, gaps, np.random.default_rng(n_models))
    found = bits_per_record(values, in_mask)
    truth = exact_measures(np.array([3.0]), np.ones(1), np.ones(1))[0, 0]
    assert least < found.most_exposed.value < truth + 0.1


def exponential(rng):
    return rng.exponential(0.8, 1_000)


def few_of_many(rng):
    return np.where(rng.permutation(1_000) < 30, 3.0, 0.2)


@pytest.mark.parametrize("n_models", [16, 64])
@pytest.mark.parametrize("gaps_of", [exponential, few_of_many])
def test_a_skewed_distribution_of_gaps_does_not_bias_the_mean(gaps_of, n_models):
    """Where few leak much, a prior around the mean gap would raise the bits of all others by a fifth."""
    errors = []
    for seed in range(6):
        rng = np.random.default_rng([seed, n_models])
        gaps, one = gaps_of(rng), np.ones(1_000)
        values, in_mask = with_unequal_spread(n_models, gaps, rng)
        truth = exact_measures(gaps, one, one)[0].mean()
        errors.append(bits_per_record(values, in_mask).means["bits"].value / truth - 1)
    assert abs(np.mean(errors)) < 0.04 + 3 * np.std(errors, ddof=1) / np.sqrt(len(errors))


def test_measures_are_those_of_the_two_gaussians():
    gap, inside, outside = (
        np.array([0.0, 0.5, 3.0, -1.0]),
        np.array([2.0, 1.0, 0.3, 4.0]),
        np.array([1.0, 1, 2, 4]),
    )
    pair = [Gaussian(m[:, None], v[:, None, None]) for m, v in ((gap, inside), (0 * gap, outside))]
    bits, rho_kl, bound = exact_measures(gap, inside, outside)
    np.testing.assert_allclose(bits * np.log(2), mutual_information(*pair).value, atol=2e-5)
    np.testing.assert_allclose(rho_kl * np.log(2), symmetric_kl(*pair), rtol=1e-9)
    np.testing.assert_allclose(bound, total_variation(*pair).value, atol=1e-9)
    assert (4 * bits <= rho_kl + 1e-4).all()
    assert (bound <= chain(*pair).farokhi_kaafar + 1e-9).all()


@pytest.mark.parametrize(("n_models", "tails"), [(6, None), (8, None), (16, 5), (64, None), (64, 5)])
def test_no_leakage_is_zero_within_its_interval(n_models, tails):
    values, in_mask, _ = population(n_models, 1000, gap=0.0, tails=tails)
    found = bits_per_record(values, in_mask)
    for figure in (found.means["bits"], found.means["rho_kl"], found.most_exposed):
        assert figure.low <= 0 <= figure.high
    assert abs(found.means["bits"].value) < 0.5 * found.floor + 0.002


def models_that_differ(rng):
    """Answers and design of 16 models, each of which separates members from others to a degree of its own."""
    in_mask = rng.random((16, 300)).argsort(axis=0) < 8
    gaps = 2 + rng.normal(0, 0.8, (16, 1))
    return rng.normal(size=in_mask.shape) + np.where(in_mask, gaps / 2, -gaps / 2), in_mask


@pytest.mark.parametrize(("n_models", "tails"), [(8, 1), (16, 1), (64, 1), (64, 2)])
def test_outputs_without_a_variance_leak_nothing_by_their_outliers(n_models, tails):
    """The floor between bins missed the mean of the floor: 12 of 12 intervals were above 0 for 64 models."""
    above = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        in_mask = make_design("balanced", n_models, 500, seed).in_mask
        above += bits_per_record(rng.standard_t(tails, in_mask.shape), in_mask, seed).means["bits"].low > 0
    assert above <= 2


@pytest.mark.parametrize(
    ("n_models", "share", "is_undefined"), [(8, 0.5, True), (16, 0.1, True), (64, 0.5, False)]
)
def test_where_chance_alone_exposes_records_the_most_exposed_are_undefined(n_models, share, is_undefined):
    """One outlier tells a side apart, so the highest 1% of noise without a variance reveal nearly all."""
    above, undefined = 0, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        in_mask = rng.random((n_models, 1000)) < share
        found = bits_per_record(rng.standard_cauchy(in_mask.shape), in_mask, seed)
        above += found.most_exposed.low > 0
        undefined += bool(found.reason_of_most_exposed)
        assert np.isnan(found.most_exposed.value) == bool(found.reason_of_most_exposed)
    assert above <= 1 and (undefined >= 4) == is_undefined
    signals = Signals({"log_odds": rng.standard_cauchy((n_models, 1, 1000))}, (1,), np.zeros(1000, np.int64))
    (checkpoint,) = bank_leakage(signals, Design(in_mask)).figures.checkpoints
    assert (checkpoint.most_exposed.reason is None) == (checkpoint.most_exposed.value is not None)


@pytest.mark.slow
def test_intervals_hold_where_models_differ_in_how_much_they_leak():
    """Permuted designs do not know these differences: twice their standard deviation holds in 12%.

    Of intervals that hold in 95% of all cases, fewer than 87% hold in 80 with a probability of 0.5%.
    """
    rng = np.random.default_rng(0)
    bits = [bits_per_record(*models_that_differ(rng)).means["bits"] for _ in range(80)]
    truth = np.mean([own.value for own in bits])
    assert np.mean([own.these_low <= truth <= own.these_high for own in bits]) >= 0.87
    assert all(own.low <= own.these_low <= own.these_high <= own.high for own in bits)


def opposite_pairs(rng):
    """Outputs and design of 8 complementary pairs that leak nothing and deviate in opposite directions."""
    in_mask = np.repeat(rng.random((8, 120)) < 0.5, 2, axis=0)
    shared = np.repeat(rng.normal(size=(8, 6)) @ rng.normal(size=(6, 120)), 2, axis=0)
    in_mask[1::2] ^= True
    shared[1::2] *= -1
    return shared + rng.normal(size=in_mask.shape), in_mask


def test_complements_that_deviate_in_opposite_directions_are_no_leakage():
    """A floor from orders that separate complements leaves 0.039 bits, with a standard error of 0.003."""
    rng = np.random.default_rng(0)
    bits = [bits_per_record(*opposite_pairs(rng)).means["bits"] for _ in range(6)]
    values = np.array([own.value for own in bits])
    assert abs(values.mean()) < 3 * values.std(ddof=1) / np.sqrt(len(values))
    assert sum(own.these_low <= 0 <= own.these_high for own in bits) >= 5


def models_that_know_members_by_heart(rng, loadings):
    """Outputs and design of 16 models: members' outputs agree, others' share what models differ in."""
    in_mask = rng.random((16, 300)) < 0.5
    noise = 0.5 * rng.normal(size=in_mask.shape)
    return noise + np.where(in_mask, 2.5, rng.normal(size=(16, 6)) @ loadings), in_mask


@pytest.mark.slow
def test_intervals_hold_where_much_leaks():
    """The geometric mean of both variances is too small here: it holds in 75%, at 0.8 of the true width.

    Of intervals that hold in 95% of all cases, fewer than 20 of 24 hold with a probability of 0.6%.
    """
    rng, loadings = np.random.default_rng(0), np.random.default_rng(1).normal(0, 0.5, (6, 300))
    bits = [
        bits_per_record(*models_that_know_members_by_heart(rng, loadings)).means["bits"] for _ in range(24)
    ]
    truth = np.mean([own.value for own in bits])
    assert sum(own.these_low <= truth <= own.these_high for own in bits) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("n_models", [8, 16, 64])
def test_without_leakage_the_mean_over_populations_is_zero(n_models):
    """By symmetry: given the outputs, the design is as likely as any of its permutations."""
    found = [bits_per_record(*population(n_models, 200, 0.0, seed)[:2], seed) for seed in range(40)]
    means = np.array([record_bits.means["bits"].value for record_bits in found])
    assert abs(means.mean()) < 3 * means.std(ddof=1) / np.sqrt(len(means))
    assert (means < 0).any() and (found[0].bits < 0).any()  # single ones may be below


def test_values_that_agree_exactly_are_certain_where_they_have_no_steps():
    """Members' residuals are 0, as of a model that knows its labels by heart; others scatter around 0."""
    rng = np.random.default_rng(0)
    in_mask = rng.random((16, 200)).argsort(axis=0) < 8
    values = np.where(in_mask, 0.0, rng.normal(size=in_mask.shape))
    assert bits_per_record(values, in_mask, has_steps=False).means["bits"].value > 0.95
    assert bits_per_record(values, in_mask).means["bits"].value < 0.9  # as if rounded to the usual step


@pytest.mark.slow
def test_intervals_hold_zero_about_as_often_as_they_say():
    held = 0
    for seed in range(12):
        values, in_mask, _ = population(12, 200, gap=0.0, seed=seed)
        bits = bits_per_record(values, in_mask).means["bits"]
        held += bits.low <= 0 <= bits.high
    assert held >= 10


@pytest.mark.parametrize("gap", [0.2, 0.6, 1.5])
@pytest.mark.parametrize("n_models", [16, 64])
def test_planted_leakage_is_found_at_its_size(gap, n_models):
    values, in_mask, (bits, rho_kl, bound) = population(n_models, 1500, gap)
    found = bits_per_record(values, in_mask)
    assert found.means["bits"].low > 0
    assert found.means["bits"].value == pytest.approx(bits.mean(), rel=0.15)
    assert found.means["rho_kl"].value == pytest.approx(rho_kl.mean(), rel=0.2)
    assert found.means["total_variation"].value == pytest.approx(bound.mean(), rel=0.15)
    chosen = np.argsort(found.bits)[-15:]
    assert 0.75 * bits[chosen].mean() - 0.03 <= found.most_exposed.value <= bits[chosen].mean() + 0.05
    assert np.corrcoef(found.bits, bits)[0, 1] > (0.6 if n_models == 64 else 0.35)


def test_moderation_beats_the_records_own_moments():
    values, in_mask, (bits, _, _) = population(12, 1500, 0.4)
    found = moments(values, in_mask)
    raw = exact_measures(
        found.inside.mean - found.outside.mean, found.inside.variance, found.outside.variance
    )
    moderated = measures(moderate(found, fit_prior(found)))
    assert np.abs(moderated[0] - bits).mean() < 0.65 * np.abs(raw[0] - bits).mean()


def test_units_and_offsets_do_not_matter_nor_do_blocks():
    values, in_mask, _ = population(16, 400, 0.5)
    found, moved = bits_per_record(values, in_mask), bits_per_record(1e3 * values - 7, in_mask)
    np.testing.assert_allclose(moved.bits, found.bits, atol=1e-6)
    assert moved.means["bits"].high == pytest.approx(found.means["bits"].high, abs=1e-6)
    assert found.bits.mean() == pytest.approx(found.means["bits"].value)
    assert most_exposed_mean(np.arange(200.0)) == 198.5


def test_records_of_one_side_and_constant_answers_are_defined():
    rng = np.random.default_rng(0)
    values, in_mask = rng.normal(size=(6, 60)), rng.random((6, 60)) < 0.5
    in_mask[:, 0], in_mask[:, 1] = True, False
    values[:, 2] = 4.0
    found = bits_per_record(values, in_mask)
    assert np.isfinite(found.bits).all()
    assert np.isfinite(found.rho_kl).all()
    still = bits_per_record(np.zeros((6, 60)), in_mask)
    np.testing.assert_allclose(still.bits, 0, atol=1e-9)
    single = bits_per_record(values[:, 5:6], in_mask[:, 5:6])
    assert np.isfinite([single.bits[0], single.means["bits"].low]).all()


def test_a_side_that_never_moves_is_told_apart():
    """Members always answer 1, others scatter far below."""
    rng = np.random.default_rng(0)
    in_mask = rng.random((20, 200)).argsort(axis=0) < 10
    found = bits_per_record(np.where(in_mask, 1.0, rng.normal(-50, 1, (20, 200))), in_mask)
    assert found.bits.min() > 0.99
    assert found.means["bits"].value > 0.99
    assert np.isfinite(found.rho_kl).all()


def test_answers_in_two_steps_are_near_their_discrete_truth():
    """Members are always right, others half of the time: 0.31 bits, total variation 1/2."""
    rng = np.random.default_rng(0)
    in_mask = rng.random((32, 300)).argsort(axis=0) < 16
    right = in_mask | (rng.random((32, 300)) < 0.5)
    found = bits_per_record(np.where(right, 4.0, -4.0), in_mask)
    assert found.means["bits"].value == pytest.approx(0.311, abs=0.12)
    assert 0.5 <= found.means["total_variation"].value < 0.65


@pytest.mark.parametrize(
    ("values", "in_mask", "reason"),
    [
        (np.zeros((1, 5)), np.ones((1, 5), bool), "no record has two models"),
        (np.zeros((2, 5)), np.array([[True] * 5, [False] * 5]), "no record has two models"),
        (np.zeros((4, 5)), np.zeros((4, 5), bool), "no record has models of both sides"),
        (np.full((4, 5), np.inf), np.arange(20).reshape(4, 5) % 2 == 0, "5 records have infinite"),
    ],
)
def test_where_nothing_can_be_said_the_reason_is(values, in_mask, reason):
    found = bits_per_record(values, in_mask)
    assert found.is_undefined
    assert reason in found.reason
    assert np.isnan(found.bits).all()


def test_three_models_have_a_value_but_no_interval():
    rng = np.random.default_rng(0)
    in_mask = np.array([[True], [True], [False]]).repeat(50, axis=1)
    found = bits_per_record(rng.normal(size=(3, 50)), in_mask)
    assert np.isfinite(found.means["bits"].value)
    assert np.isnan(found.means["bits"].low)
    assert found.reason == "not resolvable with 3 models; it takes at least 6"


@pytest.mark.parametrize("n_models", [4, 6, 8])
@pytest.mark.parametrize("share", [0.5, 0.05])
def test_few_models_or_members_that_leak_nothing_rarely_seem_to(n_models, share):
    """A lower end above 0 should be in 2.5% of the populations, and is in 1 of 4 with 4 models of 5%."""
    n_populations, mean, worst = 40, 0, 0
    for seed in range(n_populations):
        rng = np.random.default_rng([seed, n_models])
        in_mask = rng.random((n_models, 200)) < share
        found = bits_per_record(rng.normal(size=200) + rng.normal(size=in_mask.shape), in_mask)
        mean += found.means["bits"].low > 0
        worst += found.most_exposed.low >= WORST_BITS["low"]
    most = stats.binom.isf(0.001, n_populations, 0.025)
    assert mean <= most and worst <= most


def test_shapes_must_agree():
    with pytest.raises(InputError, match=r"values \(3, 4\)"):
        bits_per_record(np.zeros((3, 4)), np.zeros((3, 5), bool))


def test_every_checkpoint_of_a_bank_has_figures():
    values, in_mask, _ = population(16, 300, 0.8)
    arrays = {"log_odds": np.stack([np.zeros_like(values), values], axis=1), "loss": np.zeros((16, 2, 300))}
    found = bank_leakage(Signals(arrays, (5, 10), np.zeros(300)), Design(in_mask))
    first, last = found.figures.checkpoints
    assert (first.epoch, last.epoch) == (5, 10)
    assert abs(first.bits.value) < 1e-9
    assert last.bits.value == found.last.means["bits"].value > 0.1
    without = bank_leakage(Signals({"loss": arrays["loss"]}, (5, 10), np.zeros(300)), Design(in_mask))
    assert without.last is None
    assert "neither log_odds nor scaled_residual" in without.figures.reason


@pytest.mark.slow
def test_a_million_records_without_leakage_have_none():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((64, 1_000_000), dtype=np.float32)
    in_mask = rng.random((64, 1_000_000), dtype=np.float32) < 0.5
    found = bits_per_record(values, in_mask)
    assert found.means["bits"].low <= 0 <= found.means["bits"].high


def _rare_deviations(rng, in_mask, rate=0.1):
    """Most models give a record the same output, and a few another, trained on it or not."""
    return np.where(rng.random(in_mask.shape) < rate, rng.normal(size=in_mask.shape), 0.0)


def test_residuals_with_rare_deviations_have_no_bits():
    """They looked a whole bit apart without any leakage."""
    rng = np.random.default_rng(0)
    in_mask = rng.random((16, 300)).argsort(axis=0) < 8
    values = rng.normal(size=in_mask.shape)
    values[:, :30] = _rare_deviations(rng, in_mask[:, :30])
    bits = bits_per_record(values, in_mask, has_steps=False)
    assert bits.is_undefined
    assert "the same output from nearly all models" in bits.reason
    assert not bits_per_record(values, in_mask).is_undefined  # as of a forest, where some records are easy


def test_where_few_records_get_different_outputs_there_are_no_bits():
    """A tree that is nearly always right: 0.0001 bits were reported of records that were exposed."""
    rng = np.random.default_rng(1)
    in_mask = rng.random((16, 300)).argsort(axis=0) < 8
    values = np.full(in_mask.shape, 5.0)
    values[:, :6] = np.where(in_mask[:, :6], 5.0, -5.0)  # six records that only members get right
    bits = bits_per_record(values, in_mask)
    assert bits.is_undefined
    assert "294 of 300 records get the same output from all models" in bits.reason
