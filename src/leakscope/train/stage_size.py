"""How long one of the trainings is that a block goes through."""

from __future__ import annotations

from typing import NamedTuple


class StageSize(NamedTuple):
    """How long one stage of a training is.

    Attributes:
        epochs: the epoch it ends with.
        steps: steps of an epoch.
        first: epochs done before it; above 0, it continues with the models of the stage before.
    """

    epochs: int = 1
    steps: int = 1
    first: int = 0
