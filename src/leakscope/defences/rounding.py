"""Rounding: returns probabilities with few digits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_classes
from leakscope.recipe import AnyRecipe
from leakscope.signals.output_filter import MOST_DIGITS, OutputFilter
from leakscope.types import Records


@dataclass(frozen=True)
class Rounding(Defence):
    """Probabilities rounded to a few decimal digits, and the predicted class.

    Attributes:
        digits: how many.
    """

    digits: int = 2

    name = "rounding"
    changes = "outputs"
    strengths = ({"digits": 3}, {"digits": 2}, {"digits": 1})
    source = "Shokri et al. 2017"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("digits", 1 <= self.digits < MOST_DIGITS, f"in 1..{MOST_DIGITS - 1}")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only classifiers have probabilities."""
        return why_no_classes(records)

    def outputs(self, outputs: OutputFilter) -> OutputFilter:
        """The filter with so many digits, or its own if these are fewer."""
        own = MOST_DIGITS if outputs.digits is None else outputs.digits
        return replace(outputs, digits=min(self.digits, own))
