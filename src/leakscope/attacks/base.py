"""The contract of an attack, and every check around it.

An attack answers, for each (target model, record), how much it looks like a member; higher always
means "member". With one population every model can be the target in turn, judged by the others.
An attack writes only `run`, which fills the scores it is given; calling it checks what goes in and what
comes out. Answers and scores may be memory maps larger than memory, so `run` walks over blocks of records
(`scratch.over_blocks`) or over targets, and never makes a whole array of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from leakscope.errors import InputError
from leakscope.scratch import IN_MEMORY, Scratch, over_blocks
from leakscope.types import Design, FloatArray, IntArray, Scores, Signals


def learned_elsewhere(
    n_models: int, targets: IntArray, most_folds: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """For attacks that learn from the population: (rows of `targets`, models to learn from), fold by fold.

    A target's own membership must not reach what its scores are made of, and learning anew for every
    target is slow; so models are split into folds, and a fold's targets use what the models outside
    it teach. Folds follow from the model's index, so a target scores alike whoever else is asked about.
    """
    fold_of_model = np.arange(n_models) % min(n_models, most_folds)
    for fold in np.unique(fold_of_model[targets]):
        yield np.flatnonzero(fold_of_model[targets] == fold), np.flatnonzero(fold_of_model != fold)


class Attack(ABC):
    """A membership attack.

    Subclasses are frozen dataclasses: hyper-parameters in fields, data in the call.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __call__(
        self,
        signals: Signals,
        design: Design,
        targets: IntArray | None = None,
        scratch: Scratch = IN_MEMORY,
    ) -> Scores:
        """Scores every column for each target model.

        Args:
            signals: the bank's answers.
            design: who was in which training set.
            targets: model indices to attack; None: every model in turn.
            scratch: where the scores lie when they are many.

        Returns:
            Scores with values float64 (targets, columns), all finite or infinite, none NaN.
        """
        targets = np.arange(design.n_models) if targets is None else np.asarray(targets, dtype=np.int64)
        for name in self.needs:
            if signals.last(name).shape[:2] != design.in_mask.shape:
                raise InputError(
                    f"{self.name}: signal {name!r} is {signals.last(name).shape[:2]} "
                    f"but the design is {design.in_mask.shape}; both must be (models, records)"
                )
        scores = scratch.empty((len(targets), design.n_columns))
        if not isinstance(scores, np.memmap):  # a pass over a disk is too dear for a check
            scores.fill(np.nan)  # so that what `run` leaves out is noticed
        self.run(signals, design, targets, scores)
        counted = over_blocks(
            design.n_columns, lambda columns: int(np.isnan(scores[:, columns]).sum()), scores
        )
        assert sum(counted) == 0, f"{self.name} left {sum(counted)} records without a score"
        return Scores(self.name, targets, scores)

    @abstractmethod
    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Fills `scores`, float64 (targets, columns); may use every model but a target's own membership."""
