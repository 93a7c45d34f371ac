"""Label-only attacks: all they see are predicted labels (Choquette-Choo et al. 2021).

The signal is the share of changed versions of a record that still get its label (`signals/queries.py`). No
defence that changes confidences and leaves the predicted label can lower what these attacks achieve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block, Blocks
from leakscope.attacks.lira import GaussianRatios
from leakscope.attacks.queries import Values
from leakscope.signals.registry import LABEL_ROBUSTNESS

_OFFSET = 0.02  # half of a query of 25: keeps the log-odds of a share finite


class LabelOnly(Attack):
    """The score is the share of changed versions that get the record's label; no reference is needed."""

    name = "label_only"
    needs = (LABEL_ROBUSTNESS,)
    source = "Choquette-Choo et al. 2021"

    def score(self, block: Block) -> FloatArray:
        """The share."""
        return block.of_targets(LABEL_ROBUSTNESS)


@dataclass(frozen=True)
class LabelOnlyLira(GaussianRatios):
    """LiRA on the log-odds of that share: some records are far from the boundary in any model."""

    name = "label_only_lira"
    needs = (LABEL_ROBUSTNESS,)
    source = "Carlini et al. 2022, Choquette-Choo et al. 2021"

    def values(self, blocks: Blocks) -> list[Values]:
        """The log-odds of the share."""
        return [_log_odds]


def _log_odds(block: Block) -> FloatArray:
    share = block.signal(LABEL_ROBUSTNESS)
    return np.asarray(np.log((share + _OFFSET) / (1 - share + _OFFSET)))
