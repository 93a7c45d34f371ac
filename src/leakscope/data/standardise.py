"""Standardises features, which networks need."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, FloatArray
from leakscope.disk.mmap_rows import row_blocks
from leakscope.frames.frame import Frame
from leakscope.types import Records


class ColumnMoments(NamedTuple):
    """Mean and standard deviation of each column; float64 (...,), the shape of one record.

    `spread` is 1 where a column does not vary, so that it can be divided by.
    """

    mean: FloatArray
    spread: FloatArray


def column_moments(features: AnyArray) -> ColumnMoments:
    """The moments of features that need not fit in memory, in two passes; float64 throughout."""
    mean, variance = np.zeros(features.shape[1:]), np.zeros(features.shape[1:])
    for rows in row_blocks(features):
        mean += features[rows].astype(np.float64).sum(axis=0)
    mean /= len(features)
    for rows in row_blocks(features):
        variance += np.square(features[rows].astype(np.float64) - mean).sum(axis=0)
    spread = np.sqrt(variance / len(features))
    return ColumnMoments(mean, np.where(spread > 0, spread, 1.0))


def standardised(records: Records) -> Records:
    """Float features with mean 0 and standard deviation 1 by column; images are left to the trainer.

    The statistics are taken over all records, members and not, so they reveal nothing about membership.
    """
    if records.features.dtype != np.float32:
        return records
    of_column = column_moments(records.features)
    scaled = np.empty(records.features.shape, dtype=np.float32)
    for rows in row_blocks(records.features):
        scaled[rows] = (records.features[rows].astype(np.float64) - of_column.mean) / of_column.spread
    return dataclasses.replace(records, features=scaled, frame=_scaled(records.frame, of_column))


def _scaled(frame: Frame | None, of_column: ColumnMoments) -> Frame | None:
    """Of a file, the same features with NaN where numbers are missing; a table in memory stays as it is."""
    if frame is None or not frame.is_encoded:
        return frame
    scaled = np.empty(frame.data.shape, dtype=np.float32)
    for rows in row_blocks(frame.data):
        scaled[rows] = (frame.data[rows].astype(np.float64) - of_column.mean) / of_column.spread
    return dataclasses.replace(frame, data=scaled)
