"""The least likely tokens of a document: a text that was never seen has some that surprise the model.

Min-k% averages the lowest 20% of the log-probabilities (Shi et al. 2024). Min-k%++ first standardizes each by
the mean and the standard deviation over the vocabulary, under the model's distribution (Zhang et al. 2025).
"""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block


class MinK(Attack):
    """The score is the mean of the lowest 20% of the log-probabilities of the tokens."""

    name = "min_k"
    needs = ("lowest_log_probs",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Shi et al. 2024"

    def score(self, block: Block) -> FloatArray:
        """The mean."""
        return block.of_targets("lowest_log_probs")


class MinKPlusPlus(Attack):
    """Min-k% of log-probabilities that are standardized over the vocabulary at each position."""

    name = "min_k_plus_plus"
    needs = ("standardized_lowest",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Zhang et al. 2025"

    def score(self, block: Block) -> FloatArray:
        """The mean."""
        return block.of_targets("standardized_lowest")
