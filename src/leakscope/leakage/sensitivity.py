"""How far one record can move a ridge regression: the sensitivity that calibrates private noise.

The release is `theta = argmin mean (a_i' theta - y_i)^2 + weight theta'theta` over n records with `|a_i| <=
C` and `|y_i| <= Y`. Neighboring training sets differ in one record, which is replaced.

Write m = n weight, G for the sum of `a a'` over the n - 1 shared records, `M = inv(G + m I)`, and theta_ for
the solution of these records alone with the same m. Adding a record moves the solution (Sherman and Morrison)
by

    v = M a (y - a' theta_) / (1 + a' M a)

Let `q = a' M a` and `P = |M a|^2`. Then `|a' theta_| = |a' M X' y_| <= Y sqrt(n - 1) |X M a|`, and
`|X M a|^2 = a' M G M a = q - m P`, hence

    |v| <= Y sqrt(P) (1 + sqrt((n - 1) (q - m P))) / (1 + q)

with `q <= C^2 / m`, `P <= q / m` (as `M <= I / m`) and `P >= q^2 / C^2` (Cauchy and Schwarz). The maximum
over these q and P bounds `|v|`; replacing a record removes one and adds one, so the sensitivity is at most
twice it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize

from leakscope.array_types import FloatArray
from leakscope.errors import InputError

_POINTS = 20_001
_MARGIN = 1e-6
"""The maximum is taken over a grid of q; its relative error is far below this, which is added."""


def clipped(inputs: FloatArray, norm: float) -> FloatArray:
    """Rows of (records, p) scaled down to a norm of at most `norm`."""
    if not norm > 0:
        raise InputError(f"clip norm={norm}: must be above 0")
    length = np.linalg.norm(inputs, axis=1, keepdims=True)
    return np.asarray(inputs * np.minimum(1.0, norm / np.maximum(length, np.finfo(np.float64).tiny)))


def ridge_sensitivity(size: int, weight: float, norm: float, target: float) -> float:
    """Largest distance between the solutions of two training sets that differ in one record, at most.

    Args:
        size: records in a training set.
        weight: of `theta'theta` beside the mean squared error.
        norm: C, largest norm of a record's inputs, the intercept included.
        target: Y, largest absolute target.
    """
    if not (size >= 1 and weight > 0 and norm > 0 and target > 0):
        given = f"size={size}, weight={weight}, norm={norm}, target={target}"
        raise InputError(f"{given}: all must be above 0; without a ridge penalty sensitivity has no bound")
    m = size * weight
    q = np.geomspace(1e-9, 1.0, _POINTS) * norm**2 / m
    # P = (q / m) (1 - u^2); for a fixed q the best u is the root of 2 s u^2 + u = s, or the largest allowed.
    s = np.sqrt((size - 1) * q)
    best = np.divide(np.sqrt(1 + 8 * s**2) - 1, 4 * s, out=np.zeros_like(s), where=s > 0)
    u = np.minimum(best, np.sqrt(np.maximum(1 - q * m / norm**2, 0.0)))
    moved = np.sqrt(q / m * (1 - u**2)) * (1 + s * u) / (1 + q)
    return float(2 * target * moved.max() * (1 + _MARGIN))


def loss_sensitivity(norm: float, target: float, radius: float) -> float:
    """S: largest norm of the gradient of `(a' theta - y)^2` over records and over `|theta| <= radius`.

    The publication's model sensitivity. It is reached, and on that ball it is also the smallest Lipschitz
    constant L of the loss.
    """
    return 2 * norm * (norm * radius + target)


def solution_radius(weight: float, target: float) -> float:
    """A ball that contains every ridge solution: `weight |theta|^2 <= mean y^2 <= Y^2`."""
    return float(target / np.sqrt(weight))


class WorstPair(NamedTuple):
    """Two neighboring training sets that were searched for a large distance between their solutions.

    Attributes:
        shared: float (n - 1, p + 1), inputs and target of the records that both have.
        first: float (p + 1,), the record of the first set.
        second: float (p + 1,), the record of the second set.
        distance: between the two solutions.
    """

    shared: FloatArray
    first: FloatArray
    second: FloatArray
    distance: float


def worst_pair(size: int, weight: float, norm: float, target: float, starts: int = 4) -> WorstPair:
    """The worst pair that a search finds: what the sensitivity is at least.

    All shared records are alike, in the plane of the two others: that is where the inequalities behind
    `ridge_sensitivity` are equalities. What is left are three inputs and three targets.
    """
    rng = np.random.default_rng(0)

    def pair(free: FloatArray) -> FloatArray:
        """(3, 3): inputs and target of a shared record, of the first and of the second."""
        return np.column_stack([clipped(free[:6].reshape(3, 2), norm), target * np.tanh(free[6:])])

    def solution(shared: FloatArray, own: FloatArray) -> FloatArray:
        z = (size - 1) * np.outer(shared, shared) + np.outer(own, own)
        return np.asarray(np.linalg.solve(z[:2, :2] + size * weight * np.eye(2), z[:2, 2]))

    def distance(free: FloatArray) -> float:
        shared, first, second = pair(free)
        return -float(np.linalg.norm(solution(shared, first) - solution(shared, second)))

    found = [
        optimize.minimize(distance, rng.normal(size=9) * [*[norm] * 6, 3, 3, 3], method="Nelder-Mead",
                          options={"maxfev": 2000, "adaptive": True})
        for _ in range(starts)
    ]  # fmt: skip
    best = min(found, key=lambda one: float(one.fun))
    shared, first, second = pair(best.x)
    return WorstPair(np.tile(shared, (size - 1, 1)), first, second, -float(best.fun))
