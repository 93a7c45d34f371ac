"""Targeted treatment: an early window flags the most exposed members of each model, then they are treated.

Each model flags its own members, from its own training alone: a record that one model leaves out may be
trained on by another.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.errors import InputError
from leakscope.privacy.settings import Sampling
from leakscope.randomness import Purpose, generator
from leakscope.recipe import Recipe, Treatment
from leakscope.signals.exposure import ExposureSums, number_flagged
from leakscope.train.plan import BatchPlan, Lesson, all_members, batch_shape
from leakscope.train.poisson import Plan, PoissonPlan
from leakscope.train.stage_size import StageSize
from leakscope.types import Design


class Treated:
    """The stages of a block: the early window, where there is one, and the training with treated members.

    Attributes:
        sizes: of the stages.
        carried: the sums behind the members' exposure, float64 (models, columns) each.
    """

    def __init__(
        self, recipe: Recipe, treatment: Treatment, design: Design, models: IntArray, seed: int
    ) -> None:
        self._recipe, self._treatment, self._design = recipe, treatment, design
        self._models, self._seed = models, seed
        self._in_mask = design.in_mask[models]
        self._window = treatment.window(recipe.epochs)
        is_read = treatment.choice == "early"
        shape = self._in_mask.shape if is_read else (len(models), 0)
        self._observed, self._expected = np.zeros(shape), np.zeros(shape)
        self.carried: Mapping[str, AnyArray] = (
            {"observed": self._observed, "expected": self._expected} if is_read else {}
        )
        self._largest = _most_treated(treatment, design)
        self.sizes = self._sizes()

    def plan(self, stage: int) -> Plan:
        """The batches of all members in the window, of treated ones after it."""
        lesson = self._lesson() if stage == len(self.sizes) - 1 else None
        kind = BatchPlan if self._recipe.privacy is None else PoissonPlan
        return kind(self._design, self._models, self._recipe.batch_size, self._seed, lesson)

    def reads(self, stage: int, epoch: int) -> str | None:
        """The losses, after every epoch of the window."""
        is_early = stage < len(self.sizes) - 1
        return "loss" if is_early and self._treatment.choice == "early" else None

    def read(self, stage: int, values: AnyArray) -> None:
        """Adds the members' losses; those of a model that diverged tell nothing."""
        for model, in_mask in enumerate(self._in_mask):
            losses = np.asarray(values[model, in_mask], dtype=np.float64)
            if np.isfinite(losses).all():
                self._sums(model).add(losses, in_mask)

    def labels(self, stage: int) -> AnyArray | None:
        """The records' own."""
        return None

    def flagged(self) -> list[IntArray]:
        """The flagged members of each model, as indices of records in ascending order."""
        members = all_members(self._design, self._models).members
        return [np.sort(rows[self._chosen(m, rows)]) for m, rows in enumerate(members)]

    def _sizes(self) -> tuple[StageSize, ...]:
        first = 0 if self._treatment.restart else self._window
        last = StageSize(self._recipe.epochs, self._steps(self._largest), first)
        if not self._window:
            return (last,)
        n_members = int(self._design.in_mask.sum(axis=1).max())
        return StageSize(self._window, self._steps(n_members)), last

    def _steps(self, n_members: int) -> int:
        """Batches in an epoch; those of DP-SGD do not depend on how many members a model has."""
        batch_size = self._recipe.batch_size
        if self._recipe.privacy is not None:
            return Sampling.of(self._design, batch_size).steps_per_epoch
        return batch_shape(n_members, batch_size)[1]

    def _lesson(self) -> Lesson:
        members, flagged = all_members(self._design, self._models).members, self.flagged()
        if self._treatment.how == "leave_out":
            rest = [np.setdiff1d(rows, out) for rows, out in zip(members, flagged, strict=True)]
            return Lesson(rest, self._largest)
        n_records = 1 + max(int(rows.max()) for rows in members)
        weight: npt.NDArray[np.float32] = np.ones((len(members), n_records), dtype=np.float32)
        for model, rows in enumerate(flagged):
            weight[model, rows] = self._treatment.weight
        if self._treatment.how == "clip_more":
            return Lesson(members, self._largest, clip=weight)
        return Lesson(members, self._largest, weight)

    def _chosen(self, model: int, members: IntArray) -> IntArray | BoolArray:
        """Which of a model's members are flagged, by position or as a mask."""
        if self._treatment.choice == "listed":
            return np.isin(members, self._treatment.records)
        n_flagged = number_flagged(len(members), self._treatment.share)
        if self._treatment.choice == "random":
            rng = generator(self._seed, int(self._models[model]), Purpose.TREATMENT)
            return rng.permutation(len(members))[:n_flagged]
        in_mask = self._in_mask[model]
        sums = ExposureSums(self._observed[model, in_mask], self._expected[model, in_mask])
        return sums.ranking()[:n_flagged]

    def _sums(self, model: int) -> ExposureSums:
        return ExposureSums(self._observed[model], self._expected[model])


def _most_treated(treatment: Treatment, design: Design) -> int:
    """The most records that any model of the design is trained on in the end."""
    n_members = design.in_mask.sum(axis=1)
    if treatment.choice == "listed":
        columns = np.arange(design.n_records) if design.columns is None else design.columns
        if (highest := max(treatment.records)) > columns.max():
            raise InputError(
                f"treatment: there is no record {highest:,}; the last record is {columns.max():,}"
            )
        is_listed = np.isin(columns, treatment.records)
        n_flagged = (design.in_mask & is_listed).sum(axis=1)
    else:
        n_flagged = np.array([number_flagged(int(n), treatment.share) for n in n_members])
    if (n_members <= n_flagged).any():
        model = int(np.argmax(n_members <= n_flagged))
        raise InputError(
            f"treatment: all {n_members[model]:,} members of model {model} would be flagged; flag fewer"
        )
    rest = n_members - n_flagged if treatment.how == "leave_out" else n_members
    return int(rest.max())
