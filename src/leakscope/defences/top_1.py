"""Top-1: returns the predicted class alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_classes
from leakscope.recipe import AnyRecipe
from leakscope.signals.output_filter import OutputFilter
from leakscope.types import Records


@dataclass(frozen=True)
class TopOne(Defence):
    """Queries return the predicted class, and no probabilities."""

    name = "top_1"
    changes = "outputs"
    strengths = ({},)
    source = "Shokri et al. 2017"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only classifiers predict a class."""
        return why_no_classes(records)

    def outputs(self, outputs: OutputFilter) -> OutputFilter:
        """The filter that returns the predicted class."""
        return replace(outputs, top_1=True)
