"""Predicted exposure of members, from their training losses alone.

    exposure_i = sum over epochs of sqrt(loss_i) / sum over the same epochs of the records' mean sqrt(loss)

`dynamics.monitor` explains the measure. The trainer flags records by it (`Recipe.treatment`), too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray, IntArray


class ExposureSums:
    """The sums behind the exposure of the records of one training run.

    Attributes:
        observed: float64 (records,), sum of sqrt(loss).
        expected: float64 (records,), sum of the mean sqrt(loss) of the same epochs.
    """

    def __init__(self, observed: FloatArray, expected: FloatArray) -> None:
        """Continues from the given sums, which `add` changes."""
        self.observed, self.expected = observed, expected

    def add(self, losses: FloatArray, at: npt.NDArray[Any] | slice = slice(None)) -> None:
        """Adds the losses of one epoch, finite and at least 0, of the records at `at`."""
        root = np.sqrt(losses)
        self.observed[at] += root
        self.expected[at] += root.mean()

    def exposure(self) -> FloatArray:
        """High means exposed, 1 is average, NaN is undefined; float64 (records,)."""
        ratio: FloatArray = np.full(len(self.observed), np.nan)
        np.divide(self.observed, self.expected, out=ratio, where=self.expected > 0)
        return ratio

    def ranking(self) -> IntArray:
        """Every record, most exposed first, undefined ones last; ties in ascending order; int64."""
        return np.argsort(-self.exposure(), kind="stable").astype(np.int64)  # NaN sorts last


def number_flagged(n_records: int, share: float) -> int:
    """How many records the most exposed `share` of them are, at least one."""
    return max(1, round(share * n_records))
