"""Record ids: short texts that name the same record in every run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakscope.disk.scratch import blocks, evict_pages, temporary

_AT_ONCE = 1 << 20


def numbered_ids(prefix: str, n_records: int, start: int = 0, width: int = 0) -> npt.NDArray[np.str_]:
    """`prefix` followed by the numbers from `start`, zero-padded to `width`; str (n_records,)."""
    digits = max(width, len(str(start + n_records - 1)))
    ids: npt.NDArray[np.str_] = temporary().empty((n_records,), f"U{len(prefix) + digits}")
    for block in blocks(n_records, _AT_ONCE):
        numbers = np.arange(start + block.start, start + block.stop).astype(np.str_)
        ids[block] = np.strings.add(prefix, np.strings.zfill(numbers, width))
        evict_pages(ids)
    return ids
