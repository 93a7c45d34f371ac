"""Record ids: short texts that name the same record in every run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def numbered_ids(prefix: str, n_records: int, start: int = 0, width: int = 0) -> npt.NDArray[np.str_]:
    """`prefix` followed by the numbers from `start`, zero-padded to `width`; str (n_records,)."""
    return np.array(
        [f"{prefix}{number:0{width}d}" for number in range(start, start + n_records)], dtype=np.str_
    )
