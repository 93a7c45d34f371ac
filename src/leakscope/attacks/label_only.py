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
from leakscope.attacks.lira import KnownValues, Lira
from leakscope.attacks.moments import pooled
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
class LabelOnlyLira(Lira):
    """LiRA on the log-odds of that share: some records are far from the boundary in any model."""

    name = "label_only_lira"
    needs = (LABEL_ROBUSTNESS,)
    needs_in_regression = None
    default_for = ()
    source = "Carlini et al. 2022, Choquette-Choo et al. 2021"

    def statistics(self, blocks: Blocks) -> KnownValues:
        """Moments over all records, of the log-odds of the share."""
        return KnownValues(_log_odds, pooled(blocks, _log_odds))


def _log_odds(block: Block) -> FloatArray:
    share = block.signal(LABEL_ROBUSTNESS)
    return np.asarray(np.log((share + _OFFSET) / (1 - share + _OFFSET)))
