"""Temperature: divides the logits, so that probabilities are closer to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_classes
from leakscope.recipe import AnyRecipe
from leakscope.signals.output_filter import OutputFilter
from leakscope.types import Records


@dataclass(frozen=True)
class Temperature(Defence):
    """A temperature above 1 for the probabilities that queries return.

    The predicted class stays the same. An attack that knows the temperature can undo it, unless the
    probabilities are rounded too.

    Attributes:
        value: what logits are divided by.
    """

    value: float = 4.0

    name = "temperature"
    changes = "outputs"
    strengths = ({"value": 2.0}, {"value": 4.0}, {"value": 16.0})
    source = "Shokri et al. 2017"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("value", 1 < self.value < math.inf, "above 1")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only classifiers have probabilities."""
        return why_no_classes(records)

    def outputs(self, outputs: OutputFilter) -> OutputFilter:
        """The filter with this temperature, or its own if that is higher."""
        return replace(outputs, temperature=max(self.value, outputs.temperature))
