"""Measurements outside of the study that settle its publication's claims, each with where it was made."""

from __future__ import annotations

from typing import NamedTuple

from leakscope.studies.claims import Claim, Outcome, Settled


class Difference(NamedTuple):
    """A difference with half of its 95% interval."""

    value: float
    half: float

    def text(self, digits: int) -> str:
        """As the page of the measurement prints it, with a sign."""
        return f"{self.value:+.{digits}f} ± {self.half:.{digits}f}"


class Treatment(NamedTuple):
    """What leaving out the 5% of each model's members that it flagged early does, beside undefended models.

    Attributes:
        dataset: name of the dataset.
        auc: of EB-LiRA over all records.
        tpr: of EB-LiRA at an FPR of 0.1%, over all records, in percentage points.
        accuracy: on non-members, in percentage points.
    """

    dataset: str
    auc: Difference
    tpr: Difference
    accuracy: Difference

    @property
    def protects(self) -> bool:
        """Whether both intervals of the attack's figures are below 0."""
        return all(d.value + d.half < 0 for d in (self.auc, self.tpr))

    @property
    def keeps_utility(self) -> bool:
        """Whether the interval of the accuracy's difference reaches 0."""
        return self.accuracy.value + self.accuracy.half >= 0


TREATED_PAGE = "docs/targeted_treatment.md"
TREATED = (
    Treatment("Fashion-MNIST", Difference(-0.036, 0.010), Difference(-4.1, 1.9), Difference(0.4, 0.3)),
    Treatment("digits", Difference(0.000, 0.011), Difference(-1.3, 0.4), Difference(-1.4, 0.3)),
)
"""The row "early, leave out" of the tables "All records, difference from undefended models" of that page."""

MEANS_ONLY_BANK = "cifar10-wrn28-2-adamw"
MEANS_ONLY_RECALL = 0.697
"""Recall of early exposure at epoch 150 on that bank if only the means of the attack's Gaussians leave the
target out, and not their variance; `tests/studies/test_dynamics_by_hand.py` computes it."""


class Spacing(NamedTuple):
    """Of all records, the shares that are in the corner at one checkpoint or more.

    Attributes:
        every: epochs between checkpoints.
        seen: share of the records.
        by_chance: the same with each record's memberships drawn again.
    """

    every: int
    seen: float
    by_chance: float


SPACINGS = (Spacing(10, 0.788, 0.738), Spacing(20, 0.680, 0.543), Spacing(40, 0.582, 0.358))
"""On the baseline's bank, 400 epochs; `tests/studies/test_dynamics_by_hand.py` computes them."""


def finer(claim: Claim, measured: tuple[Spacing, ...] = SPACINGS) -> Settled:
    """Whether finer checkpoints see more records in the corner, and more than chance adds to them."""
    finest, coarsest = measured[0], measured[-1]
    gain, by_chance = finest.seen - coarsest.seen, finest.by_chance - coarsest.by_chance
    outcome = Outcome.NOT_REPRODUCED
    if gain > 0:
        outcome = Outcome.NOISE if by_chance >= gain else Outcome.REPRODUCED
    parts = [f"every {s.every} epochs {s.seen:.1%}, by chance {s.by_chance:.1%}" for s in measured]
    ours = f"records seen in the corner at one checkpoint or more: {'; '.join(parts)}"
    why = (
        f"from every {coarsest.every} to every {finest.every} epochs, {100 * gain:.0f} points are added, by "
        f"chance {100 * by_chance:.0f}"
    )
    protocol = "the baseline, some of its checkpoints left out; `tests/studies/test_dynamics_by_hand.py`"
    return Settled(claim, outcome, ours, protocol, why)


def treated_early(claim: Claim, measured: tuple[Treatment, ...] = TREATED) -> Settled:
    """Whether treating the records that are exposed early protects all records at no cost in accuracy."""
    works = [one.protects and one.keeps_utility for one in measured]
    outcome = Outcome.REPRODUCED if all(works) else Outcome.NOT_REPRODUCED
    if any(works) and not all(works):
        outcome = Outcome.SAME_DIRECTION
    parts = [
        f"{one.dataset}: AUC of EB-LiRA {one.auc.text(3)}, its TPR at an FPR of 0.1% {one.tpr.text(1)} "
        f"points, accuracy {one.accuracy.text(1)} points"
        for one in measured
    ]
    why = f"it protects without a cost in accuracy on {sum(works)} of {len(works)} datasets"
    protocol = f"48 models, mlp, without the 5% of members that each flagged early; `{TREATED_PAGE}`"
    return Settled(claim, outcome, "; ".join(parts), protocol, why)
