"""EZ-MIA: what fine-tuning changed where the model still errs. (Ilić, Stanojević and Cvejoski 2026)

At positions where the most probable token is not the next one, P is the sum of the increases of the
log-probability of the next token over the base, and N that of the decreases. The publication scores P / N,
this attack P / (P + N), which orders documents alike and is finite where N is 0.
"""

from __future__ import annotations

from leakscope.array_types import FloatArray
from leakscope.attacks.base import Attack
from leakscope.attacks.blocks import Block


class EzMia(Attack):
    """The score is the share of increases over the base in all changes, at tokens the model gets wrong."""

    name = "ez_mia"
    needs = ("error_gap",)
    default_for = ("population", "alone", "references", "out_references")
    source = "Ilić et al. 2026"

    def score(self, block: Block) -> FloatArray:
        """The share."""
        return block.of_targets("error_gap")
