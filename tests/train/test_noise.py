"""The noise of DP-SGD: normal, and a function of (run seed, model, step) only."""

import numpy as np
import pytest
import torch
from scipy import stats

from leakscope.randomness import Purpose, generator
from leakscope.train.noise import _PERIOD, DeviceNoise, HostNoise, _fresh_state

SHAPES = [(40, 25), (7,)]
CPU = torch.device("cpu")
KINDS = [HostNoise, DeviceNoise]


def drawn(kind, models=(0, 1, 2), seed=5, first=0, n_steps=1, scale=1.0):
    """float (steps, models, numbers)."""
    noise = kind(seed, np.array(models), SHAPES, scale, CPU)
    noise.start(first)
    steps = []
    for _ in range(n_steps):
        gradients = [torch.zeros(len(models), *shape) for shape in SHAPES]
        noise.add_(gradients)
        steps.append(torch.cat([g.flatten(1) for g in gradients], dim=1))
    return torch.stack(steps).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_standard_normal_times_its_scale(kind):
    values = drawn(kind, n_steps=60, scale=0.5).ravel().astype(np.float64) / 0.5
    assert len(values) > 180_000
    assert stats.kstest(values, "norm").pvalue > 1e-4
    assert abs((values**4).mean() - 3) < 4.5 * np.sqrt(96 / len(values))
    assert np.abs(values).max() > 4


@pytest.mark.parametrize("kind", KINDS)
def test_models_steps_and_positions_are_uncorrelated(kind):
    values = drawn(kind, n_steps=2 * _PERIOD + 2).reshape(-1, 1007)
    correlation = np.corrcoef(values)[np.triu_indices(len(values), 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(1007)
    shifted = [np.corrcoef(values[:, :-k].ravel(), values[:, k:].ravel())[0, 1] for k in (1, 2, 25, 40)]
    assert np.abs(shifted).max() < 5.5 / np.sqrt(values.size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_s_noise_does_not_depend_on_the_block_or_the_start(kind):
    whole = drawn(kind, n_steps=2 * _PERIOD + 3)
    for first in (1, _PERIOD - 1, _PERIOD, _PERIOD + 5):
        later = drawn(kind, models=(2, 0), first=first, n_steps=3)
        np.testing.assert_array_equal(later[:, 0], whole[first : first + 3, 2])
        np.testing.assert_array_equal(later[:, 1], whole[first : first + 3, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_other_noise(kind):
    one, other = drawn(kind, seed=5).ravel(), drawn(kind, seed=6).ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / np.sqrt(len(one))


def test_all_of_the_generator_s_state_is_ours():
    """torch's generator is a Mersenne twister that begins with our words: numpy's gives the same bits."""
    words = generator(5, 2, Purpose.NOISE, 3).integers(2**32, size=624, dtype=np.uint32)
    twister = np.random.MT19937(0)
    state = twister.state
    state["state"] = {"key": words, "pos": 624}
    twister.state = state
    ours = torch.Generator()
    ours.set_state(_fresh_state(5, 2, 3))
    drawn_bits = torch.empty(2000, dtype=torch.int32).random_(generator=ours).numpy()
    theirs = (twister.random_raw(2001) % 2**31).astype(np.int32)
    assert np.array_equal(drawn_bits, theirs[:-1]) or np.array_equal(drawn_bits, theirs[1:])
