"""Which results speak to which claims, and the rules that turn numbers into verdicts.

The rules:

- A cell of the published table is reproduced if the publication's own seeds give it within its rounding and
  one record (of one repeat), or if it lies in the 95% range over initializations.
- A published correlation is reproduced if moving each width's mean by that tolerance can give it, or if it
  lies in the 95% range over initializations. Where that range contains 0, it is "reproduced, but noise".
- A statement about five widths is reproduced if it holds with the publication's seeds and in at least 97.5%
  of the initializations (that something is not significant: in at least half of them). If it holds with the
  publication's seeds but less often than that, it is "reproduced, but noise". So is a success of the attack
  that other data do not give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from leakscope.array_types import FloatArray
from leakscope.stats.correlation import coefficient
from leakscope.studies.claims import Outcome
from leakscope.studies.scaling.config import GAUSSIAN, PUBLISHED_WIDTHS, ScalingConfig
from leakscope.studies.scaling.results import (
    Initializations,
    PublishedSeeds,
    ScalingResults,
    WidthMeans,
    WidthResults,
)

ROUNDING = 0.0005
SIGNIFICANT = 0.05
MOST, FEWEST = 0.975, 0.025
"""Shares of initializations at which a statement holds, or fails, beyond chance."""


@dataclass(frozen=True)
class Evidence:
    """The results by what they are evidence of; None where there are none.

    Attributes:
        published: the published protocol.
        wide: the published protocol at more widths.
        decisive: many widths and independent repeats with sound shadow models.
        same_shadows: the published protocol with shadow models of the target's distribution.
        variance: the published protocol with classes of variance 1.5.
        larger: more records than published, with independent repeats.
        real: another dataset.
        dropout: the decisive protocol, at any widths, with dropout.
        weight_decay: the same with weight decay.
    """

    published: ScalingResults | None
    wide: ScalingResults | None
    decisive: ScalingResults | None
    same_shadows: ScalingResults | None
    variance: ScalingResults | None
    larger: ScalingResults | None
    real: ScalingResults | None
    dropout: ScalingResults | None
    weight_decay: ScalingResults | None


def sorted_evidence(results: Sequence[ScalingResults]) -> Evidence:
    """Each kind of evidence from the first results that are of this kind."""

    def first(fits: Callable[[ScalingConfig], bool]) -> ScalingResults | None:
        return next((one for one in results if fits(one.config)), None)

    base = ScalingConfig()
    return Evidence(
        published=first(lambda c: c.is_published_protocol),
        wide=first(lambda c: _differs_only(c, hidden_widths=c.hidden_widths) and _has_more_widths(c)),
        decisive=first(lambda c: _is_sound(c) and _has_more_widths(c) and not _is_regularized(c)),
        same_shadows=first(lambda c: _differs_only(c, shadow_data="same")),
        variance=first(lambda c: _differs_only(c, class_sd=c.class_sd) and abs(c.class_sd**2 - 1.5) < 0.01),
        larger=first(lambda c: c.dataset == GAUSSIAN and c.n_samples > base.n_samples),
        real=first(lambda c: c.dataset != GAUSSIAN),
        dropout=first(lambda c: _is_sound(c) and c.dropout > 0 and not c.weight_decay),
        weight_decay=first(lambda c: _is_sound(c) and c.weight_decay > 0 and not c.dropout),
    )


def _has_more_widths(config: ScalingConfig) -> bool:
    return set(config.hidden_widths) > set(PUBLISHED_WIDTHS)


def _is_regularized(config: ScalingConfig) -> bool:
    return config.dropout > 0 or config.weight_decay > 0


def _is_sound(config: ScalingConfig) -> bool:
    """Independent repeats, and shadow models of the target's distribution."""
    is_sound = config.target_data == "redrawn" and config.shadow_data == "same"
    return is_sound and config.dataset == GAUSSIAN and config.n_samples == ScalingConfig.n_samples


def _differs_only(config: ScalingConfig, **changes: object) -> bool:
    changed = {**vars(ScalingConfig()), **changes}
    return vars(config.without_additions()) == changed


@dataclass(frozen=True)
class Trainings:
    """The published protocol, trained with the publication's seeds and from many initializations."""

    config: ScalingConfig
    exact: PublishedSeeds
    spread: Initializations

    @classmethod
    def of(cls, results: ScalingResults | None) -> Trainings | None:
        """None where either is missing: one training alone cannot be compared with another."""
        if results is None or results.published_seeds is None or results.initializations is None:
            return None
        return cls(results.config, results.published_seeds, results.initializations)

    @property
    def tolerance(self) -> float:
        """What rounding and one record of one repeat do to a published mean."""
        members = int(self.config.n_samples * self.config.train_fraction)
        return ROUNDING + 1 / (self.config.n_repeats * members)

    @property
    def sd_tolerance(self) -> float:
        """The same for a published standard deviation over repeats."""
        return ROUNDING + math.sqrt(2) * (self.tolerance - ROUNDING)

    def by_initialization(self, figure: str) -> list[tuple[float, ...]]:
        """One tuple of a figure at all widths per initialization."""
        return list(zip(*(getattr(width, figure).values for width in self.spread.widths), strict=True))

    def share(self, holds: Callable[[tuple[float, ...]], bool], figure: str) -> float:
        """In which share of the initializations a statement about a figure at all widths holds."""
        return float(np.mean([holds(values) for values in self.by_initialization(figure)]))

    def exact_values(self, figure: str) -> tuple[float, ...]:
        """A figure at all widths, with the publication's seeds."""
        return tuple(getattr(width, figure) for width in self.exact.widths)


def r_range(x: Sequence[float], y: Sequence[float], x_moves: float, y_moves: float) -> tuple[float, float]:
    """The least and the largest Pearson correlation if every point may move that far along each axis."""
    corners = [
        coefficient(np.add(x, np.multiply(dx, x_moves)), np.add(y, np.multiply(dy, y_moves)), "pearson")
        for dx in _signs(len(x), x_moves)
        for dy in _signs(len(y), y_moves)
    ]
    return min(corners), max(corners)


def _signs(n: int, moves: float) -> list[tuple[float, ...]]:
    return list(product((-1.0, 1.0), repeat=n)) if moves else [(0.0,) * n]


def event(holds_exactly: bool, share: float) -> Outcome:
    """The verdict on a statement about five widths."""
    if holds_exactly:
        return Outcome.REPRODUCED if share >= MOST else Outcome.NOISE
    return Outcome.REFUTED if share <= FEWEST else Outcome.NOT_REPRODUCED


@dataclass(frozen=True)
class Mean:
    """A mean over independent repeats with its 95% t interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | FloatArray) -> Mean:
        """Of one value per repeat."""
        mean = float(np.mean(values))
        error = float(np.std(values, ddof=1) / math.sqrt(len(values)))
        half = float(stats.t.ppf(0.975, len(values) - 1)) * error
        return cls(mean, mean - half, mean + half)

    def excludes(self, other: Mean) -> bool:
        """Whether the two intervals have no value in common."""
        return self.high < other.low or other.high < self.low

    def signed(self) -> str:
        """With its sign: of a difference."""
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def width_of(results: ScalingResults, width: int) -> WidthResults | None:
    """The entry of one width."""
    return next((row for row in results.results if row.hidden_width == width), None)


def _by_repeat(row: WidthResults, attack: str | None) -> list[float]:
    """An attack's AUC (None: the gap), one per repeat."""
    return [one.overfit_gap if attack is None else one.auc[attack] for one in row.repeats]


def growth(results: ScalingResults, attack: str | None) -> Mean:
    """How much an attack's AUC (None: the gap) rises from the narrowest to the widest model."""
    first, last = (_by_repeat(row, attack) for row in (results.results[0], results.results[-1]))
    return Mean.of(np.subtract(last, first).tolist())


def paired_difference(first: ScalingResults, second: ScalingResults, attack: str | None) -> Mean:
    """An attack's AUC (None: the gap) in the first results minus that in the second.

    Mean over the widths of the first and over its repeats, whose targets have the same data in both.
    """
    n_repeats = min(first.config.n_repeats, second.config.n_repeats)
    by_width = []
    for row in first.results:
        other = width_of(second, row.hidden_width)
        assert other is not None
        own, theirs = (_by_repeat(r, attack)[:n_repeats] for r in (row, other))
        by_width.append(np.subtract(own, theirs))
    return Mean.of(np.mean(by_width, axis=0))


def exact_row(trainings: Trainings, width: int) -> WidthMeans:
    """The figures of one width with the publication's seeds."""
    return next(row for row in trainings.exact.widths if row.hidden_width == width)
