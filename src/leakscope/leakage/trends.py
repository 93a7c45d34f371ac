"""How a quantity depends on how easy a record is: its mean in quantile bins, linear in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray

_MOST_BINS = 20
_RECORDS_PER_BIN = 100


class Trend(NamedTuple):
    """A piecewise linear function of a record's centre; (bins,) each."""

    centre: FloatArray
    height: FloatArray

    def at(self, centre: FloatArray) -> FloatArray:
        """Its value at each centre (records,); constant beyond the ends."""
        return np.interp(centre, self.centre, self.height)


FLAT = Trend(np.zeros(1), np.zeros(1))


def quantile_bins(centre: FloatArray) -> IntArray:
    """Bin of each record by quantiles of the centre; (records,)."""
    n_bins = int(np.clip(len(centre) // _RECORDS_PER_BIN, 1, _MOST_BINS))
    return np.searchsorted(np.quantile(centre, np.arange(1, n_bins) / n_bins), centre)


def bin_trend(values: FloatArray, centre: FloatArray, bins: IntArray, used: BoolArray) -> Trend:
    """Mean of the used values in each non-empty bin, at the mean of their centres; 0 without any."""
    if not used.any():
        return FLAT
    count = np.bincount(bins[used])
    filled = count > 0
    means = [np.bincount(bins[used], weights=v[used])[filled] / count[filled] for v in (centre, values)]
    return Trend(means[0], means[1])
