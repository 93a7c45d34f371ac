"""The noise of DP-SGD: normal far into the tails, and a function of (run seed, model, step) only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from leakscope.array_types import FloatArray
from leakscope.train.compiler import SWITCH
from leakscope.train.noise import Noise, compiled_numbers, normal_numbers, philox

SHAPES = [(40, 25), (7,)]
CPU = torch.device("cpu")

Draw = Callable[[int, int, int], FloatArray]
"""Key, step, blocks -> float64 (4 blocks,)."""


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to draw the numbers."""
    if request.param == "torch":
        monkeypatch.setenv(SWITCH, "0")
    elif compiled_numbers() is None:
        pytest.skip("there is no C compiler")
    return str(request.param)


def numbers(key: int, step: int, n_blocks: int) -> FloatArray:
    draw, drawn = compiled_numbers(), torch.empty(4 * n_blocks)
    if draw is None:
        drawn = normal_numbers(torch.tensor([[key]]), torch.tensor([step]), n_blocks)[0]
    else:
        draw(key, step, n_blocks, drawn.data_ptr())
    return drawn.double().numpy()


def drawn(
    models: tuple[int, ...] = (0, 1, 2), seed: int = 5, first: int = 0, n_steps: int = 1, scale: float = 1.0
) -> FloatArray:
    """float (steps, models, numbers), as gradients get them."""
    noise = Noise(seed, np.array(models), SHAPES, scale, CPU)
    noise.start(first)
    steps = []
    for _ in range(n_steps):
        gradients = [torch.zeros(len(models), *shape) for shape in SHAPES]
        noise.add_(gradients)
        steps.append(torch.cat([g.flatten(1) for g in gradients], dim=1))
    return torch.stack(steps).double().numpy()


def test_words_are_those_of_the_publication() -> None:
    """Vectors that Salmon et al. publish with their code; a counter has its second word at zero here."""
    words = philox(torch.tensor([[0]]), torch.arange(1), torch.tensor([0]))
    assert [int(word) for word in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_compiled_numbers_are_those_of_torch() -> None:
    if (draw := compiled_numbers()) is None:
        pytest.skip("there is no C compiler")
    rng = np.random.default_rng(0)
    for n_blocks in (1, 7, 8, 9, 5000):
        key, step = int(rng.integers(2**63)), int(rng.integers(2**40))
        compiled = torch.empty(4 * n_blocks)
        draw(key, step, n_blocks, compiled.data_ptr())
        by_torch = normal_numbers(torch.tensor([[key]]), torch.tensor([step]), n_blocks)[0]
        torch.testing.assert_close(compiled, by_torch, rtol=1e-6, atol=1e-6)


def test_no_pair_of_words_gives_anything_but_a_finite_number() -> None:
    """The ends of the range: the uniform number is never 0, and a radius is never imaginary."""
    from leakscope.train.noise import _normal_pair

    ends = torch.tensor([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
    pairs = [_normal_pair(ends, end.expand(6)) for end in ends]
    values = torch.stack([one for pair in pairs for one in pair])
    assert values.isfinite().all()
    assert 6.6 < values.abs().max() < 6.7, "as far as 32 bits reach: one number in 4e10 would be further out"


def test_moments_distribution_and_tails_are_normal(way: str) -> None:
    """Half a million numbers; limits are 4.5 standard errors of each statistic."""
    values = np.concatenate([numbers(17, step, 62_500) for step in range(2)])
    n = len(values)
    moments = {1: (0, 1), 2: (1, 3), 3: (0, 15), 4: (3, 105), 6: (15, 10395)}
    for order, (mean, square) in moments.items():
        assert abs((values**order).mean() - mean) < 4.5 * np.sqrt((square - mean**2) / n), order
    assert stats.kstest(values, "norm", method="asymp").pvalue > 1e-4
    for sigma in (1, 2, 3, 4, 4.5, 5):
        for beyond in ((values > sigma).sum(), (values < -sigma).sum()):
            assert stats.poisson.cdf(beyond, n * stats.norm.sf(sigma)) > 1e-5
            assert stats.poisson.sf(beyond - 1, n * stats.norm.sf(sigma)) > 1e-5


@pytest.mark.slow
def test_tails_are_normal_to_five_sigma_and_beyond() -> None:
    """A hundred million numbers, of which 57 should be beyond 5 and 4 beyond 5.4."""
    if compiled_numbers() is None:
        pytest.skip("torch alone takes a minute")
    beyond = np.zeros(4)
    for step in range(100):
        values = np.abs(numbers(23, step, 250_000))
        beyond += [(values > sigma).sum() for sigma in (4, 4.5, 5, 5.4)]
    expected = 1e8 * 2 * stats.norm.sf([4, 4.5, 5, 5.4])
    assert (stats.poisson.cdf(beyond, expected) > 1e-5).all()
    assert (stats.poisson.sf(beyond - 1, expected) > 1e-5).all()


def test_numbers_of_a_pair_and_a_block_are_independent(way: str) -> None:
    """Also their squares: a radius is shared by two numbers."""
    parts = numbers(3, 0, 250_000).reshape(4, -1)
    for values in (parts, parts**2, np.abs(parts)):
        assert np.abs(np.corrcoef(values)[np.triu_indices(4, 1)]).max() < 5 / np.sqrt(parts.shape[1])
    later = np.corrcoef(parts[:, :-1].ravel(), parts[:, 1:].ravel())[0, 1]
    assert abs(later) < 5 / np.sqrt(parts.size)


def test_models_steps_and_positions_are_uncorrelated(way: str) -> None:
    values = drawn(n_steps=34).reshape(-1, 1007)
    for rows in (values, values**2):
        correlation = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
        assert np.abs(correlation).max() < 6.5 / np.sqrt(1007)
    shifted = [np.corrcoef(values[:, :-k].ravel(), values[:, k:].ravel())[0, 1] for k in (1, 2, 25, 40)]
    assert np.abs(shifted).max() < 5.5 / np.sqrt(values.size)


def test_neighboring_keys_and_steps_share_no_number(way: str) -> None:
    """Keys and counters that differ in one bit, which a weak hash would not tell apart."""
    rows = [numbers(2**bit, 0, 500) for bit in range(0, 63, 7)]
    rows += [numbers(0, 2**bit, 500) for bit in range(0, 40, 7)]
    correlation = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)
    blocks = np.concatenate([row.reshape(4, -1).T for row in rows])
    assert len(np.unique(blocks, axis=0)) == len(blocks)


def test_a_model_s_noise_does_not_depend_on_the_block_or_the_start(way: str) -> None:
    whole = drawn(n_steps=20)
    for first in (1, 15, 16):
        later = drawn(models=(2, 0), first=first, n_steps=3)
        np.testing.assert_array_equal(later[:, 0], whole[first : first + 3, 2])
        np.testing.assert_array_equal(later[:, 1], whole[first : first + 3, 0])


def test_another_seed_gives_other_noise_and_the_scale_is_the_spread(way: str) -> None:
    one, other = drawn(seed=5).ravel(), drawn(seed=6).ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / np.sqrt(len(one))
    np.testing.assert_allclose(drawn(seed=5, scale=0.25).ravel(), 0.25 * one, rtol=1e-6)
