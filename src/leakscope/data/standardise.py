"""Features on one scale, which networks need and tables rarely have."""

from __future__ import annotations

import dataclasses

import numpy as np

from leakscope.types import Records


def standardised(records: Records) -> Records:
    """Float features with mean 0 and standard deviation 1 by column; images are left to the trainer.

    The statistics are taken over all records, members and not, so they tell nothing about membership.
    """
    if records.features.dtype != np.float32:
        return records
    values = records.features.astype(np.float64)
    spread = values.std(axis=0)
    scaled = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return dataclasses.replace(records, features=scaled.astype(np.float32))
