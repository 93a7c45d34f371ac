"""How complex is a dataset? The leave-one-out error of its nearest neighbor.

The share of records whose nearest other record has another label, by Euclidean distance of the features. It
needs no training, no model and no setting: near 0 where classes are well apart in the space of features (0.05
to 0.1 for handwritten digits), near `1 - 1 / classes` where distances say nothing about the class. The
publication names dataset complexity as a cause without measuring it.
"""

from __future__ import annotations

import numpy as np

from leakscope.disk.scratch import blocks
from leakscope.types import Records

MOST_RECORDS = 2_000
_ROWS_AT_ONCE = 500


def nearest_neighbor_error(records: Records, most: int = MOST_RECORDS) -> float:
    """The error over the first `most` records: for all datasets the same number, as it falls with density."""
    labels = records.labels[:most]
    x = np.asarray(records.features[:most], dtype=np.float64).reshape(len(labels), -1)
    x = x - x.mean(axis=0)  # distances stay the same, and squares lose fewer digits
    squares = (x**2).sum(axis=1)
    n_wrong = 0
    for rows in blocks(len(x), _ROWS_AT_ONCE):
        distance = squares - 2 * x[rows] @ x.T
        np.fill_diagonal(distance[:, rows], np.inf)
        n_wrong += int((labels[distance.argmin(axis=1)] != labels[rows]).sum())
    return n_wrong / len(labels)
