"""What a run stores beside its bank, because the outputs alone do not give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from leakscope.array_types import FloatArray


class BesideBank(NamedTuple):
    """Measures of networks and of records.

    Attributes:
        gradient_hardness: measure -> (records,), from models that were trained again.
        uncertainty: measure -> (checkpoints, records), from passes with dropout, or from a given bank.
        complexity: nearest-neighbor error of the records; None where their features are unknown.
        accuracy: (checkpoints, 2), on members and on non-members, of a given bank; None: the bank says.
    """

    gradient_hardness: Mapping[str, FloatArray] = {}
    uncertainty: Mapping[str, FloatArray] = {}
    complexity: float | None = None
    accuracy: FloatArray | None = None
