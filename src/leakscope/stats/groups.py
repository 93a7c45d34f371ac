"""The group of each record, for figures group by group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import IntArray
from leakscope.disk.string_arrays import distinct


class Grouping(NamedTuple):
    """The group of each record.

    Attributes:
        names: names of the groups, sorted; none is empty.
        codes: int32 (records,), index of each record's group in `names`.
    """

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, labels: npt.ArrayLike) -> Grouping:
        """Groups by labels, one per record."""
        names, codes = distinct(np.asarray(labels, dtype=np.str_))
        return cls(tuple(names.tolist()), codes)

    def items(self) -> Iterator[tuple[str, IntArray]]:
        """Name and record indices of each group."""
        for code, name in enumerate(self.names):
            yield name, np.flatnonzero(self.codes == code)
