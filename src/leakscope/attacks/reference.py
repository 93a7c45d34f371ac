"""Attack-R (Ye et al. 2022): is the target's loss small compared with other models' on the same record?"""

from __future__ import annotations

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.attacks.blocks import Block
from leakscope.attacks.calibrated import Calibrated


class Reference(Calibrated):
    """Share of OUT models with a higher loss on the record than the target.

    With n OUT models that share has n + 1 values. Ties are broken by how far the target's log-odds (of a
    regression: log-density) lie above the mean of the OUT models (the calibrated score), which never reorders
    two different shares.
    """

    name = "reference"
    source = "Ye et al. 2022"

    def score(self, block: Block) -> FloatArray:
        """The share, with ties broken."""
        values, above = block.statistics.fit.of(block), super().score(block)
        tie_break = 0.5 + above / (2 * (1 + np.abs(above)))  # in (0, 1), rises with `above`
        share = _share_above(values, block)
        return np.asarray(share + tie_break / (2 * len(values) ** 2))


def _share_above(values: FloatArray, block: Block) -> FloatArray:
    """Share of OUT references whose fit is below the target's, 1/2 without any; (targets, records)."""
    share = np.empty((len(block.targets), values.shape[1]))
    for row, target in enumerate(block.targets):
        others = block.is_reference(row) & ~block.in_mask
        n_below, n_out = ((values < values[target]) & others).sum(axis=0), others.sum(axis=0)
        share[row] = np.where(n_out > 0, n_below / np.maximum(n_out, 1), 0.5)
    return share
