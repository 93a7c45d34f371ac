"""Deduplication: trains on each record once, however often it occurs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_network
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class Deduplication(Defence):
    """A model is trained on only the first of its members that are equal in features and label.

    The records stay as they are, and so does their membership, so that figures can be compared: a member that
    is left out is a copy of one that is not.
    """

    name = "deduplication"
    changes = "records"
    strengths = ({},)
    source = "Kandpal et al. 2022"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only where records occur twice, in the training of networks."""
        if isinstance(recipe, Recipe) and len(set(records.duplicate_of.tolist())) == len(records):
            return "no two records are equal in features and label"
        return why_no_network(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe that leaves copies out."""
        assert isinstance(recipe, Recipe)
        return replace(recipe, deduplicate=True)
