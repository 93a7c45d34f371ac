"""Early stopping: ends training before a model has learned its records by heart."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.defences.base import Defence, why_no_network
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class EarlyStopping(Defence):
    """A share of the epochs, chosen in advance, so that no record is set aside to decide when to stop.

    A schedule of the learning rate runs through the fewer epochs.

    Attributes:
        share: of the recipe's epochs.
    """

    share: float = 0.5

    name = "early_stopping"
    changes = "recipe"
    strengths = ({"share": 0.75}, {"share": 0.5}, {"share": 0.25})
    source = "Song and Mittal 2021"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("share", 0 < self.share < 1, "above 0 and below 1")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks have epochs, and one epoch cannot be shortened."""
        if isinstance(recipe, Recipe) and recipe.epochs < 2:
            return "the recipe has one epoch"
        return why_no_network(recipe)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with fewer epochs, at least one, and the checkpoints among these."""
        assert isinstance(recipe, Recipe)
        epochs = max(1, round(self.share * recipe.epochs))
        checkpoints = tuple(epoch for epoch in recipe.checkpoints if epoch <= epochs)
        return replace(recipe, epochs=epochs, checkpoints=checkpoints)
