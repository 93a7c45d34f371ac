"""What models are asked about every record: the record itself, and changed ones; and what they return."""

from __future__ import annotations

from typing import NamedTuple

from leakscope.errors import InputError
from leakscope.frames.frame import Frame
from leakscope.signals.output_filter import NO_FILTER, OutputFilter

_SHIFTS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (2, 0), (-2, 0), (0, 2), (0, -2))
_SCALES, _DRAWS = (0.1, 0.25, 0.5, 1.0, 2.0), 5
_IMAGE_SCALES, _IMAGE_DRAWS = (0.1, 0.25, 0.5), 2
_PIXEL = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
_NOISE, _MOST_NOISY = 0.1, 18


class Query(NamedTuple):
    """How a record is changed; by default not at all.

    Attributes:
        mirrored: whether left and right are exchanged.
        down: pixels by which the image moves down; its border is repeated.
        right: pixels by which it moves to the right.
        noise: standard deviation of Gaussian noise, in units of the feature's own.
    """

    mirrored: bool = False
    down: int = 0
    right: int = 0
    noise: float = 0.0


class Asked(NamedTuple):
    """What models are asked about every record, and what they return.

    Attributes:
        outputs: what a query returns.
        queries: those of the signal `query_log_odds`.
    """

    outputs: OutputFilter = NO_FILTER
    queries: tuple[Query, ...] = ()


NOTHING_ELSE = Asked()
"""One query per record, which returns the model's outputs."""


def label_queries(shape: tuple[int, ...]) -> tuple[Query, ...]:
    """Those of `label_robustness`: 24 about an image (channels, height, width), else 26."""
    if len(shape) != 3:
        return (Query(), *(Query(noise=scale) for scale in _SCALES for _ in range(_DRAWS)))
    views = [Query(mirrored, down, right) for mirrored in (False, True) for down, right in _SHIFTS]
    return (*views, *(Query(noise=scale) for scale in _IMAGE_SCALES for _ in range(_IMAGE_DRAWS)))


def log_odds_queries(shape: tuple[int, ...], number: int, mirrors: bool) -> tuple[Query, ...]:
    """The first `number` of those of `query_log_odds`; the first is the record itself.

    Args:
        shape: of a record; an image is (channels, height, width).
        number: of queries per record.
        mirrors: whether models may have been trained on mirror images.

    Raises:
        InputError: there are not so many.
    """
    if len(shape) == 3:
        sides = (False, True) if mirrors else (False,)
        known = tuple(Query(mirrored, *move) for move in _PIXEL for mirrored in sides)
        why = "an image, its mirror image, and both moved by a pixel in eight directions"
        if not mirrors:
            why = "an image, and the image moved by a pixel in eight directions (training does not mirror it)"
    else:
        known = (Query(), *(Query(noise=_NOISE) for _ in range(_MOST_NOISY - 1)))
        why = "a record, and the record with a little noise"
    if number > len(known):
        raise InputError(f"queries={number}: there are at most {len(known)}: {why}")
    return known[:number]


def check_queries_of_table(table: Frame | None) -> None:
    """Refuses several queries about the rows of a table that models get as it is: noise is for features."""
    if table is not None:
        raise InputError(
            "queries: several queries add noise to features, and this table goes to estimators as it is; "
            "leave queries out"
        )
