"""The bound for updates that show records bare: their noise is missing, or is that of another update.

Canaries that are out show the noise by itself. Where they show none, an update says exactly who was drawn. So
does the difference of two updates whose noise is the same. Independent noise gives no such update, so nothing
here touches a training that adds it.

A single bare update cannot say how rarely there is noise after all: less than once in the number of canaries.
Several say more. If noise is independent from update to update, a canary that is out seems to be drawn in k
of them with the k-th power of that small probability.
"""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import NamedTuple

import numpy as np
from scipy import stats

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.dp.gaussian_sum import LARGEST
from leakscope.dp.verdict import Evidence
from leakscope.privacy.claim import Claim
from leakscope.stats.intervals import clopper_pearson

ASSUMED = "Noise, if there is any, is drawn independently for each parameter in each update."
_LEAST_OF_EACH = 10
_BARE, _VISIBLE = 1e-3, 1e-2
"""Of the largest value in an update: the most noise that counts as none, and what counts as drawn. Rounding
leaves up to 1e-4 where updates are read from the parameters."""


class Bare(NamedTuple):
    """Updates, or differences of two, that show who was drawn.

    Attributes:
        shown: bool (updates, canaries), who seems to be drawn.
        is_in: bool (canaries,), the coins.
        what: which updates, in words.
    """

    shown: BoolArray
    is_in: BoolArray
    what: str


def bare_evidence(bare: Bare, claim: Claim, confidence: float, name: str) -> Evidence:
    """The bound from bare updates."""
    counts, n_updates = bare.shown.sum(axis=0), len(bare.shown)
    epsilon = _epsilon(counts, bare.is_in, n_updates, claim.delta, 1 - confidence)
    ceiling = _epsilon(bare.is_in * n_updates, bare.is_in, n_updates, claim.delta, 1 - confidence)
    return Evidence(name, epsilon, confidence, ceiling, bare.what, len(counts), 1, (ASSUMED,))


def bare_updates(values: FloatArray, is_in: BoolArray, layers: IntArray) -> Bare | None:
    """The updates without noise, else differences of updates with the same noise; None if there are none.

    Args:
        values: float64 (updates, canaries), the noisy gradients.
        is_in: bool (canaries,), the coins.
        layers: int64 (canaries,), the parameter tensor of each; noise may be missing in one alone.
    """
    bare = _bare_in(values, is_in, layers)
    if bare is not None:
        n_bare = f"{len(bare.shown):,} of {len(values):,}"
        return bare._replace(what=f"canaries seen in {n_bare} updates, with next to no noise")
    bare = _bare_in(_differences(values, is_in), is_in, layers)
    if bare is None:
        return None
    return bare._replace(
        what=f"canaries seen in the differences of {len(bare.shown):,} pairs of updates with the same noise"
    )


def lacks_noise(values: FloatArray, is_in: BoolArray) -> BoolArray:
    """Whether canaries that are out show no noise, for each update; bool (updates,)."""
    noise = np.sqrt((values[:, ~is_in] ** 2).mean(axis=1))
    return np.asarray(noise <= _BARE * np.abs(values).max(axis=1))


def _bare_in(values: FloatArray, is_in: BoolArray, layers: IntArray) -> Bare | None:
    """Those of the layers that lack noise in the most updates."""
    found = [bare for layer in np.unique(layers) if (bare := _bare_layer(values, is_in, layers == layer))]
    if not found:
        return None
    most = max(len(bare.shown) for bare in found)
    some = [bare for bare in found if len(bare.shown) == most]
    shown = np.concatenate([bare.shown for bare in some], axis=1)
    return Bare(shown, np.concatenate([bare.is_in for bare in some]), "")


def _bare_layer(values: FloatArray, is_in: BoolArray, of_layer: BoolArray) -> Bare | None:
    values, is_in = values[:, of_layer], is_in[of_layer]
    if min(is_in.sum(), (~is_in).sum()) < _LEAST_OF_EACH:
        return None
    sizes = np.abs(values[lacks_noise(values, is_in)])
    shown = sizes > _VISIBLE * sizes.max(axis=1, keepdims=True)
    return Bare(shown, is_in, "") if shown.any() else None


def _differences(values: FloatArray, is_in: BoolArray) -> FloatArray:
    """Differences of updates whose noise is the same but for its scale; no update is used twice."""
    size = np.sqrt((values[:, ~is_in] ** 2).mean(axis=1, keepdims=True))
    scaled = values / np.where(size > 0, size, 1.0)
    noise = scaled[:, ~is_in]
    # Equal noise has equal projections: equals are neighbors in their order.
    order = np.argsort(noise @ np.random.default_rng(0).standard_normal(noise.shape[1]))
    pairs: list[tuple[int, int]] = []
    for one, other in pairwise(order.tolist()):
        is_free = not pairs or pairs[-1][1] != one
        if is_free and ((noise[one] - noise[other]) ** 2).mean() <= _BARE**2:
            pairs.append((one, other))
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return scaled[first] - scaled[second]


def _epsilon(counts: IntArray, is_in: BoolArray, n_updates: int, delta: float, error: float) -> float:
    """Lower bound on epsilon from how often each canary is seen; half of the error for each coin.

    Canaries that are in are counted whole, whatever draws them. Of those that are out, the rate per update is
    bounded, and updates are independent.
    """
    outside = counts[~is_in]
    rate = clopper_pearson(int(outside.sum()), len(outside) * n_updates, 1 - error).high
    often = sorted({2**k for k in range(n_updates.bit_length())} | {n_updates})
    level = 1 - error / len(often)
    epsilon = 0.0
    for k in often:
        inside = clopper_pearson(int((counts[is_in] >= k).sum()), int(is_in.sum()), level).low
        if inside > delta:
            log_outside = float(stats.binom.logsf(k - 1, n_updates, rate))
            epsilon = max(epsilon, log(inside - delta) - log_outside)
    return min(epsilon, LARGEST)
