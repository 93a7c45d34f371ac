"""The order of defences, and which of them is recommended.

First come those that surely leak less and are affordable, then those that surely leak less and are not, then
the others; within each, by how much the AUC falls. A defence is recommended only from the first of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leakscope.advice.results import Tried


def ranked(tried: Sequence[Tried]) -> list[Tried]:
    """Best first, with the dominated ones marked."""
    marked = [replace(one, dominated_by=_dominating(one, tried)) for one in tried]
    return sorted(marked, key=_order)


def recommended(tried: Sequence[Tried]) -> str | None:
    """The first of the ranked defences, where it leaks less and is affordable."""
    best = tried[0] if tried else None
    return best.defence if best and best.effect == "leaks less" and best.is_affordable else None


def _order(one: Tried) -> tuple[int, float, float]:
    helps = one.effect == "leaks less"
    place = 0 if helps and one.is_affordable else 1 if helps else 2
    return place, one.auc.other or 0.0, -_utility(one)


def _dominating(one: Tried, others: Sequence[Tried]) -> str | None:
    """A defence that surely leaks less and, by the estimates, is better in one respect and worse in none."""

    def dominates(other: Tried) -> bool:
        auc, own_auc = other.auc.other or 0.0, one.auc.other or 0.0
        is_as_good = auc <= own_auc and _utility(other) >= _utility(one)
        return is_as_good and (auc < own_auc or _utility(other) > _utility(one))

    better = [other for other in others if other.effect == "leaks less" and dominates(other)]
    return min(better, key=lambda other: other.auc.other or 0.0).defence if better else None


def _utility(one: Tried) -> float:
    return one.utility.other or 0.0
