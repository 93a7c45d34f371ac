"""Leaf size: every leaf of a tree answers for several records, so none of them alone decides an output."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import parameters_named, why_no_parameter, with_parameters
from leakscope.recipe import AnyRecipe
from leakscope.types import Records

_NAME = "min_samples_leaf"


@dataclass(frozen=True)
class LeafSize(Defence):
    """Least number of training records in a leaf of a tree, a forest or boosted trees.

    Attributes:
        least: records in each leaf, at least.
    """

    least: int = 10

    name = "leaf_size"
    changes = "recipe"
    strengths = ({"least": 5}, {"least": 10}, {"least": 25})
    source = "Breiman 2001"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only trees have leaves; larger ones stay as they are."""
        sizes = parameters_named(recipe, _NAME).values()
        if sizes and all(isinstance(size, int) and size >= self.least for size in sizes):
            return f"{_NAME} is {', '.join(map(str, sizes))} already"
        return why_no_parameter(recipe, _NAME)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with leaves of this size, or larger ones where it has them."""
        sizes = parameters_named(recipe, _NAME)
        larger = {k: max(self.least, v) if isinstance(v, int) else self.least for k, v in sizes.items()}
        return with_parameters(recipe, larger)
