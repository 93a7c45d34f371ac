"""Pairs of Gaussians for the tests: random ones, and a naive reference of their KL."""

import numpy as np
from hypothesis import strategies as st

from leakscope.leakage.gaussian import Gaussian

SEEDS = st.integers(0, 100_000)
DIMENSIONS = st.integers(1, 5)


def random_pair(seed, p, n=()):
    """Two Gaussians (*n, p), moderately far apart, parameters of very different sizes."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(p, p)) + 2 * np.eye(p)
    mix *= np.geomspace(1e-3, 1e3, p)[:, None]

    def one():
        root = mix @ (np.eye(p) + 0.3 * rng.normal(size=(*n, p, p)))
        mean = (mix @ (0.7 * rng.normal(size=(*n, p, 1))))[..., 0]
        return Gaussian(mean, root @ np.swapaxes(root, -1, -2) + 0.05 * mix @ mix.T)

    return one(), one()


def naive_kl(first, second):
    """The corrected formula of Remark 3 of Farokhi and Kaafar (2020), by inverses."""
    inverse = np.linalg.inv(second.covariance)
    gap = second.mean - first.mean
    trace = np.trace(inverse @ first.covariance)
    log_determinants = np.linalg.slogdet(second.covariance)[1] - np.linalg.slogdet(first.covariance)[1]
    return (trace - len(gap) + gap @ inverse @ gap + log_determinants) / 2


def projected(g, directions):
    """Of directions' x; directions (p, q)."""
    return Gaussian(g.mean @ directions, directions.T @ g.covariance @ directions)
