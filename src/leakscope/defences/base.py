"""The contract of a defence: what it changes about how models are made, trained or queried.

A defence is data: a frozen dataclass whose fields are its options. It changes the recipe, the records or the
outputs, and nothing else; the models are then trained and attacked as any others are, so the reference models
of every attack have the same defence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from leakscope.errors import InputError
from leakscope.options import accepted_values, label_of
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.signals.output_filter import OutputFilter
from leakscope.types import Records

Changes = Literal["recipe", "records", "outputs", "recipe and outputs"]


@dataclass(frozen=True)
class Defence:
    """A defence against membership inference.

    Attributes:
        name: short and unique.
        changes: what it acts on: "recipe" (how a model is trained), "records" (what it is trained on) or
            "outputs" (what a query returns), or "recipe and outputs".
        strengths: options of three settings or more, from weak to strong, for comparisons; of a defence
            without options, the only setting.
        source: the publication, as "Author et al. YEAR".
    """

    name: ClassVar[str]
    changes: ClassVar[Changes]
    strengths: ClassVar[tuple[dict[str, int | float | str | bool], ...]]
    source: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for option, accepted in accepted_values(type(self)).items():
            value = getattr(self, option)
            try:
                object.__setattr__(self, option, accepted.convert(value))
            except ValueError as error:
                raise InputError(f"defence={self.name!r}: {option}={value!r}: {error}") from error

    def _check(self, option: str, is_fine: bool, wanted: str) -> None:
        """Refuses a value of an option at which the defence would not defend, or would not work."""
        if not is_fine:
            value = getattr(self, option)
            raise InputError(f"defence={self.name!r}: {option}={value!r}: must be {wanted}")

    @property
    def label(self) -> str:
        """The name, with the options that differ from their defaults: "weight_decay(rate=0.01)"."""
        return label_of(self.name, self)

    def why_not(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Why the defence cannot protect these models; None where it can."""
        reason = self.unmet(recipe, records)
        if reason is not None:
            return reason
        try:
            self.recipe(recipe, records)
        except InputError as error:  # the recipe has something that excludes the defence
            return str(error)
        return None

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """What these models lack that the defence needs; None: nothing. A subclass says so."""
        return None

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with the defence."""
        return recipe

    def records(self, records: Records) -> Records:
        """The records with the defence: as many, in the same order."""
        return records

    def outputs(self, outputs: OutputFilter) -> OutputFilter:
        """What queries return with the defence."""
        return outputs


def why_no_stages(recipe: AnyRecipe, records: Records) -> str | None:
    """The reason of defences that train in stages."""
    if records.copies is not None:
        return "it cannot be combined with duplicated canaries"
    return why_no_network(recipe)


def why_no_network(recipe: AnyRecipe) -> str | None:
    """The reason of defences that act on the training of networks."""
    return None if isinstance(recipe, Recipe) else "it acts on the training loop of a network"


def why_no_classes(records: Records) -> str | None:
    """The reason of defences that act on the probabilities of classes."""
    has_classes = records.is_classification and not records.is_language
    return None if has_classes else "it acts on the probabilities of classes"


def why_no_classifying_network(recipe: AnyRecipe, records: Records) -> str | None:
    """The reason of defences that act on the training loss of a classifier."""
    return why_no_network(recipe) or why_no_classes(records)


def why_relaxed(recipe: AnyRecipe) -> str | None:
    """The reason of defences that soften the labels, which RelaxLoss does itself."""
    is_relaxed = isinstance(recipe, Recipe) and recipe.relax_loss > 0
    return "the recipe has relax_loss, which has labels of its own" if is_relaxed else None
