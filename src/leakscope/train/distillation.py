"""SELENA: models that learn each member's label from sub-models not trained on it (Tang et al. 2022).

Every sub-model is a stage of its own for the whole block. The members of a model are divided at random into
as many equal parts as there are sub-models; sub-model k is trained without parts k, k + 1, ... (`left_out` of
them, counted in a circle). The publication draws the left-out sub-models of each member independently. Equal
parts give sub-models of equal sizes, and the same guarantee: a member's soft label comes from models that
have not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, IntArray
from leakscope.errors import InputError
from leakscope.randomness import Purpose, generator, seed_integer
from leakscope.recipe import Distillation, Recipe
from leakscope.train.plan import BatchPlan, Lesson, all_members, batch_shape
from leakscope.train.stage_size import StageSize
from leakscope.types import Design


class Distilled:
    """The stages of a block: one for each sub-model, and the training on soft labels.

    Attributes:
        sizes: of the stages.
        carried: soft labels, float32 (models, columns, classes); those of non-members stay 0.
    """

    def __init__(
        self,
        recipe: Recipe,
        distillation: Distillation,
        design: Design,
        models: IntArray,
        seed: int,
        n_classes: int,
    ) -> None:
        self._recipe, self._distillation, self._design = recipe, distillation, design
        self._models, self._seed = models, seed
        fewest = int(design.in_mask.sum(axis=1).min())
        if fewest < distillation.models:
            raise InputError(
                f"distillation: models={distillation.models}: a model has only {fewest} members to divide "
                "into as many parts"
            )
        self._soft: npt.NDArray[np.float32] = np.zeros(
            (len(models), design.n_records, n_classes), dtype=np.float32
        )
        self.carried: Mapping[str, AnyArray] = {"soft": self._soft}
        self._columns = [np.flatnonzero(design.in_mask[m]) for m in models]
        self._parts = [self._divided(int(m), len(at)) for m, at in zip(models, self._columns, strict=True)]
        self.sizes = tuple(
            StageSize(recipe.epochs, batch_shape(self._most(stage), recipe.batch_size)[1])
            for stage in range(distillation.models + 1)
        )

    def plan(self, stage: int) -> BatchPlan:
        """The batches of a sub-model, or of all members on soft labels."""
        if self._is_last(stage):
            return BatchPlan(self._design, self._models, self._recipe.batch_size, self._seed)
        seed = seed_integer(self._seed, stage, Purpose.DISTILLATION_SUB_MODEL)
        members = all_members(self._design, self._models).members
        seen = [rows[~self._is_new(stage, m)] for m, rows in enumerate(members)]
        lesson = Lesson(seen, self._most(stage))
        return BatchPlan(self._design, self._models, self._recipe.batch_size, seed, lesson)

    def reads(self, stage: int, epoch: int) -> str | None:
        """What a sub-model predicts when its training ends."""
        return "logits" if not self._is_last(stage) and epoch == self._recipe.epochs else None

    def read(self, stage: int, values: AnyArray) -> None:
        """Adds the predicted probabilities of the members that the sub-models have not seen."""
        for model, columns in enumerate(self._columns):
            new = columns[self._is_new(stage, model)]
            self._soft[model, new] += _softmax(values[model, new]) / self._distillation.left_out

    def labels(self, stage: int) -> AnyArray | None:
        """Soft labels in the last stage."""
        if not self._is_last(stage):
            return None
        columns = self._design.columns
        if columns is None:
            return self._soft
        by_record = np.zeros((len(self._models), 1 + int(columns.max()), self._soft.shape[2]), np.float32)
        by_record[np.arange(len(self._models))[:, None], columns[self._models]] = self._soft
        return by_record

    def _is_last(self, stage: int) -> bool:
        return stage == self._distillation.models

    def _divided(self, model: int, n_members: int) -> IntArray:
        """The part of each member of a model; int64 (members,)."""
        parts = np.arange(n_members) % self._distillation.models
        return generator(self._seed, model, Purpose.DISTILLATION_PARTS).permutation(parts)

    def _is_new(self, stage: int, model: int) -> npt.NDArray[np.bool_]:
        """bool (members,): a sub-model is not trained on the member."""
        behind = (self._parts[model] - stage) % self._distillation.models
        is_new: npt.NDArray[np.bool_] = behind < self._distillation.left_out
        return is_new

    def _most(self, stage: int) -> int:
        """The most records that any model of the design is trained on in a stage."""
        n_members = self._design.in_mask.sum(axis=1)
        if self._is_last(stage):
            return int(n_members.max())
        k, left_out = self._distillation.models, self._distillation.left_out
        n_in_part = (n_members[:, None] + k - 1 - np.arange(k)) // k  # (models, parts)
        is_seen = (np.arange(k) - stage) % k >= left_out
        return int(n_in_part[:, is_seen].sum(axis=1).max())


def _softmax(logits: AnyArray) -> npt.NDArray[np.float32]:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: npt.NDArray[np.float32] = shifted / shifted.sum(axis=-1, keepdims=True)
    return probabilities
