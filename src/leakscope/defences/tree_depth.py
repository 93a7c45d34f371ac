"""Tree depth: a shallow tree cannot set single records apart."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.defences.base import Defence
from leakscope.defences.estimator_parameters import parameters_named, why_no_parameter, with_parameters
from leakscope.recipe import AnyRecipe
from leakscope.types import Records

_NAME = "max_depth"


@dataclass(frozen=True)
class TreeDepth(Defence):
    """Largest depth of a tree, of the trees of a forest, or of boosted trees.

    Attributes:
        most: splits on a path from the root to a leaf.
    """

    most: int = 6

    name = "tree_depth"
    changes = "recipe"
    strengths = ({"most": 10}, {"most": 6}, {"most": 3})
    source = "Breiman et al. 1984"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only trees have a depth; shallower ones stay as they are."""
        depths = parameters_named(recipe, _NAME).values()
        if depths and all(depth is not None and depth <= self.most for depth in depths):
            return f"{_NAME} is {', '.join(map(str, depths))} already"
        return why_no_parameter(recipe, _NAME)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with trees of this depth, or shallower ones where it has them."""
        depths = parameters_named(recipe, _NAME)
        return with_parameters(recipe, {k: min(self.most, v or self.most) for k, v in depths.items()})
