"""Which defences are tried, in which order, and with how many models: whatever fits into the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from leakscope.audits.population import TrainedPopulation
from leakscope.bank.run_folder import to_jsonable
from leakscope.defences.base import Defence
from leakscope.defences.registry import defence_classes, strengths_of
from leakscope.defences.settings import settings_of
from leakscope.errors import InputError
from leakscope.recipe import AnyRecipe

MODELS = (8, 16, 32, 64)
"""Models per defence, from the fewest whose figures are reliable."""
MOST_DEFENCES = 12
"""Settings to try: each more widens the intervals of all."""
_USUAL_MODELS = 16
_USED_SHARE = 0.9
"""Of the time; the rest is for what a short trial does not show."""


@dataclass(frozen=True)
class Candidates:
    """Defences to try, in order.

    Attributes:
        defences: the settings of those that apply.
        settings: label -> the tables of a config file that switch it on.
        not_applicable: label -> why it does not apply.
    """

    defences: tuple[Defence, ...]
    settings: Mapping[str, str]
    not_applicable: Mapping[str, str]


def candidates(source: TrainedPopulation, read: Callable[[str], AnyRecipe] | None) -> Candidates:
    """Every defence that applies: a middling setting of each first, then strong ones, then weak ones.

    Args:
        source: the models without a defence.
        read: reads the user's config with these tables in it, as a recipe; raises InputError where it cannot.
            None: there is no config.
    """
    chosen: list[Defence] = []
    settings: dict[str, str] = {}
    refused: dict[str, str] = {}
    for defence in _in_turns():
        reason, text = defence.why_not(source.recipe, source.records), ""
        try:
            text = "" if reason else _settings(source, defence, read)
        except InputError as error:
            reason = f"no setting of the config switches it on ({error})"
        if reason or text in ("", *settings.values()):
            refused[defence.label] = reason or "it changes nothing here, or as much as another setting does"
            continue
        chosen.append(defence)
        settings[defence.label] = text
    if not chosen:
        listed = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise InputError(f"no defence applies to these models ({listed})")
    few, others = chosen[:MOST_DEFENCES], chosen[MOST_DEFENCES:]
    late = {defence.label: f"{MOST_DEFENCES} settings are tried at most" for defence in others}
    return Candidates(tuple(few), settings, {**late, **_by_name(refused)})


def _by_name(refused: Mapping[str, str]) -> dict[str, str]:
    """One entry for a defence whose settings are all refused for the same reason."""
    short: dict[str, str] = {}
    for name in defence_classes():
        labels = [defence.label for defence in strengths_of(name)]
        reasons = {refused.get(label) for label in labels}
        if len(reasons) == 1 and None not in reasons:
            short[name] = refused[labels[0]]
        else:
            short |= {label: refused[label] for label in labels if label in refused}
    return short


def _settings(source: TrainedPopulation, defence: Defence, read: Callable[[str], AnyRecipe] | None) -> str:
    """The tables that switch a defence on, of which the config makes the recipe that is tried."""
    after = defended(source, defence)
    wanted, text = after.recipe, settings_of(source.recipe, after.recipe, source.outputs, after.outputs)
    if text and read is not None:
        described = [to_jsonable(recipe.description()) for recipe in (read(text), wanted)]
        if described[0] != described[1]:
            raise InputError("it reads them as another recipe")
    return text


def defended(source: TrainedPopulation, defence: Defence) -> TrainedPopulation:
    """The same records and models, with a defence."""
    return replace(
        source,
        recipe=defence.recipe(source.recipe, source.records),
        outputs=defence.outputs(source.outputs),
    )


def _in_turns() -> list[Defence]:
    """All settings: the middle one of every defence, then the strongest, then the others.

    What queries return comes last: it changes nothing about what a model has memorized.
    """
    names = sorted(defence_classes(), key=lambda name: defence_classes()[name].changes == "outputs")
    ordered = [_by_importance(strengths_of(name)) for name in names]
    return [one for turn in zip_longest(*ordered) for one in turn if one is not None]


def _by_importance(strengths: Sequence[Defence]) -> list[Defence]:
    middle = strengths[len(strengths) // 2]
    return list(dict.fromkeys([middle, *reversed(strengths)]))


@dataclass(frozen=True)
class Schedule:
    """How much is tried.

    Attributes:
        models: models per defence, and without one.
        n_defences: number of defences.
        seconds: expected time of everything.
    """

    models: int
    n_defences: int
    seconds: float


def schedule(seconds_per_model: float, n_candidates: int, minutes: float, most_models: int) -> Schedule:
    """The most defences that 16 models each allow; more models where all defences fit.

    Args:
        seconds_per_model: of training and judging, in a population.
        n_candidates: number of defences to choose from.
        minutes: time that there is.
        most_models: models of the user's own config.

    Raises:
        InputError: not even one defence can be tried.
    """
    budget = _USED_SHARE * 60 * minutes
    allowed = [n for n in MODELS if n <= max(most_models, MODELS[0])]

    def n_defences(models: int) -> int:
        return min(int(budget / (seconds_per_model * models)) - 1, n_candidates)

    usual = max(n for n in allowed if n <= _USUAL_MODELS)
    fitting = [n for n in allowed if n >= usual and n_defences(n) >= n_candidates]
    models = max(fitting, default=usual if n_defences(usual) >= 2 else allowed[0])
    n = n_defences(models)
    if n < 1:
        needed = 2 * seconds_per_model * allowed[0] / _USED_SHARE / 60
        raise InputError(
            f"minutes={minutes:g}: one defence with {allowed[0]} models takes about {needed:.1f} minutes; "
            f"give at least that many (--minutes {needed + 0.5:.0f})"
        )
    return Schedule(models, n, (n + 1) * models * seconds_per_model)
