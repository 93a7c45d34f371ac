"""What may have gone wrong where a check failed, the most likely cause first.

Checks name causes as they are for a model that leakscope queries. Of saved outputs and of documents, other
causes are likely: `likely_in` puts them in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leakscope.evaluate.config import SourceKind
from leakscope.evaluate.hygiene.outcome import Outcome

SWAPPED_MEMBERS = "members and non-members are swapped"
SWAPPED = "labels, or the classes of the outputs, are swapped"
SHUFFLED = "the outputs are in another order than the labels"
_REFERENCE_LISTS = "the member lists of the reference models belong to other models, or are in another order"
_SPECIFIC = (SWAPPED_MEMBERS, SWAPPED, SHUFFLED, _REFERENCE_LISTS)
"""Causes that are named only where the figures point to them."""

_ORDER = "the features reach the model in another order than in its training"
_SCALE = (
    "the features are preprocessed differently than in its training (scaling, encoding, pixel range; in a "
    "config file, `standardise = false` in [data] leaves them as they are)"
)
_LIST = "the member list is that of another run, or part of it was held out"
_RECIPE = "the reference models follow another recipe than the target"
OF_OUTPUTS = (_ORDER, _SCALE, _LIST)
"""Why the outputs of a target do not fit its own members."""
OF_REFERENCES = (*OF_OUTPUTS, _RECIPE)
"""Why the outputs of a target do not fit those of its reference models."""
OF_REFERENCE_MEMBERS = (_REFERENCE_LISTS, _RECIPE)
"""Why the stated members of reference models look like non-members."""
OF_MEMBERS = (_LIST, _ORDER, _SCALE, _RECIPE)
"""Why the stated members of a target look like non-members."""

_COLUMN = "a column is the wrong one: the labels, or the outputs of a class in the place of another"
_SAVED_INPUTS = "the outputs were saved with features in another order or on another scale than in training"
_TOKENS = "the documents reach the model with other tokens or other text around them than in its training"
_OF_PREDICTIONS = {_ORDER: (_COLUMN,), _SCALE: (), _LIST: (_LIST, _SAVED_INPUTS)}
_OF_TEXT = {_ORDER: (_TOKENS,), _SCALE: ()}


def likely_in(check: Outcome, kind: SourceKind, is_text: bool) -> Outcome:
    """The outcome of a check with the causes that are possible in an audit of this kind."""
    own: Mapping[str, tuple[str, ...]] = {}
    if is_text:  # documents have neither an order of features nor a scale
        own = _OF_TEXT
    elif kind == "predictions":  # leakscope sees no features
        own = _OF_PREDICTIONS
    return replace(check, causes=tuple(one for cause in check.causes for one in own.get(cause, (cause,))))


def in_order(causes: Iterable[str]) -> list[str]:
    """The causes of several checks, each once; those that figures point to come first."""
    return sorted(dict.fromkeys(causes), key=lambda cause: cause not in _SPECIFIC)
