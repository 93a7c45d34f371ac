"""scores.npz: every attacker's scores of the private records, small enough to hand on."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from leakscope.bank.run_folder import stored_array
from leakscope.disk.storage import write_bytes
from leakscope.single_model.attack import PRIVATE

SCORES = "scores.npz"
"""The file in the run folder: attacker -> float32 (private records,), in the order of outputs.npz.

What breaks ties is smaller than a float32 shows, so tied records are tied here.
"""


def write_scores(folder: Path, attackers: Iterable[str]) -> None:
    """Writes the file from the scores on disk; the same scores give the same bytes."""
    scores = {name: stored_array(folder / PRIVATE / f"{name}.npy")[0] for name in attackers}
    content = io.BytesIO()
    np.savez_compressed(content, **{name: one.astype(np.float32) for name, one in scores.items()})
    write_bytes(folder / SCORES, content.getvalue())
