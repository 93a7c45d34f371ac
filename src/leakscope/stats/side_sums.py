"""Sums of records' values over the models trained with them (IN) and over those trained without (OUT)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leakscope.array_types import BoolArray, FloatArray


class SideSums(NamedTuple):
    """Sufficient statistics of records' IN and OUT values; float64 (records,) or (targets, records) each."""

    n_in: FloatArray
    sum_in: FloatArray
    square_in: FloatArray
    n_out: FloatArray
    sum_out: FloatArray
    square_out: FloatArray

    def added(self, values: FloatArray, to_in: FloatArray | float, to_out: FloatArray | float) -> SideSums:
        """Adds one model's values so many times to each side; -1 removes them. Shapes broadcast."""
        squares = values * values
        return SideSums(
            self.n_in + to_in,
            self.sum_in + to_in * values,
            self.square_in + to_in * squares,
            self.n_out + to_out,
            self.sum_out + to_out * values,
            self.square_out + to_out * squares,
        )


def side_sums(values: FloatArray, in_mask: BoolArray, used: BoolArray | None = None) -> SideSums:
    """Sums over models, or over those that are used; all arguments are (models, records)."""
    out_mask = ~in_mask
    if used is not None:
        in_mask, out_mask = in_mask & used, out_mask & used
    seen, unseen = np.where(in_mask, values, 0.0), np.where(out_mask, values, 0.0)
    n_in, n_out = in_mask.sum(axis=0).astype(float), out_mask.sum(axis=0).astype(float)
    squares = np.einsum("mr,mr->r", seen, seen), np.einsum("mr,mr->r", unseen, unseen)
    return SideSums(n_in, seen.sum(axis=0), squares[0], n_out, unseen.sum(axis=0), squares[1])


def has_both(sums: SideSums) -> BoolArray:
    """Which records have values on both sides."""
    return (sums.n_in > 0) & (sums.n_out > 0)


def usual_gap(sums: SideSums) -> float:
    """The mean difference of the two sides' means, over the records that have both; 0 without any."""
    both = has_both(sums)
    if not both.any():
        return 0.0
    return float(np.mean(sums.sum_in[both] / sums.n_in[both] - sums.sum_out[both] / sums.n_out[both]))


def gap_of_sides(sums: SideSums) -> float:
    """The difference of the means of all values of a side, whichever records they are of."""
    n_in, n_out = float(sums.n_in.sum()), float(sums.n_out.sum())
    if not n_in or not n_out:
        return 0.0
    return float(sums.sum_in.sum()) / n_in - float(sums.sum_out.sum()) / n_out


def overall_variance(sums: SideSums) -> float:
    """The variance of all values, of all records and sides together."""
    n = float((sums.n_in + sums.n_out).sum())
    mean = float((sums.sum_in + sums.sum_out).sum()) / n
    return max(float((sums.square_in + sums.square_out).sum()) / n - mean**2, 1e-12)


def resolution_variance(values: FloatArray) -> float:
    """Coarseness of the values: share of ties within a record times the squared median step; 0 without ties.

    Args:
        values: (models, records).
    """
    steps = np.diff(np.sort(values, axis=0), axis=0)
    if not (steps > 0).any():
        return 0.0
    return float((steps == 0).mean() * np.median(steps[steps > 0]) ** 2)
