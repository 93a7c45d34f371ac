"""Dropout: removes units at random in training, so that no unit can memorize a record alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.defences.base import Defence, why_no_network
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records

_OPTION = "dropout"


@dataclass(frozen=True)
class Dropout(Defence):
    """Dropout in networks whose factory has an option `dropout`.

    Attributes:
        rate: share of the units that are dropped.
    """

    rate: float = 0.3

    name = "dropout"
    changes = "recipe"
    strengths = ({"rate": 0.1}, {"rate": 0.3}, {"rate": 0.5})
    source = "Salem et al. 2019"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("rate", 0 < self.rate < 1, "above 0 and below 1")

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks with the option have it."""
        if not isinstance(recipe, Recipe):
            return why_no_network(recipe)
        if isinstance(recipe, AdapterRecipe):
            return "full fine-tuning has no adapters" if recipe.full else None
        import inspect

        from leakscope.models.registry import factory

        is_taken = _OPTION in inspect.signature(factory(recipe.net)).parameters
        return None if is_taken else f"net={recipe.net!r} has no option {_OPTION!r}"

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with this rate, or its own if that is higher."""
        assert isinstance(recipe, Recipe)
        if isinstance(recipe, AdapterRecipe):
            return replace(recipe, lora=replace(recipe.lora, dropout=max(self.rate, recipe.lora.dropout)))
        options = dict(recipe.net_options)
        own = options.get(_OPTION) or 0.0
        assert isinstance(own, int | float), "a factory takes a number"
        return replace(recipe, net_options=tuple({**options, _OPTION: max(self.rate, own)}.items()))
