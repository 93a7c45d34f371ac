"""The contract of an attack, and every check around it.

An attack answers, for each (target model, record), how much it looks like a member; higher always
means "member". With one population every model can be the target in turn, judged by the others.
An attack writes only `run`, which fills the scores it is given; calling it checks what goes in and what
comes out. Answers and scores may be memory maps larger than memory, so `run` walks over blocks of records
(`scratch.over_blocks`) or over targets, and never makes a whole array of its own.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from leakscope.array_types import FloatArray, IntArray
from leakscope.disk.scratch import IN_MEMORY, Scratch, over_blocks
from leakscope.errors import InputError
from leakscope.types import Design, Scores, Signals

References = Literal["none", "out", "both"]


def cross_fit_folds(n_models: int, targets: IntArray, most_folds: int) -> Iterator[tuple[IntArray, IntArray]]:
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

    Subclasses are frozen dataclasses: options in fields, data in the call. Everything the rest of the package
    needs to know about an attack is declared on its class.

    Attributes:
        name: short and unique.
        needs: the signals it reads.
        references: the reference models it needs: "none", "out" (models trained without the record) or
            "both" (models trained with it and models trained without it).
        is_log_ratio: whether its score is a log likelihood ratio, so that above 0 means "member".
        is_binary: whether its score takes two values only, so that a ROC has a single operating point.
        default_for: the audits that run it by default: "population"; "alone", saved predictions of one model;
            "references" and "out_references", saved predictions beside those of reference models.
        source: the publication, as "Author et al. YEAR".
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    references: ClassVar[References] = "none"
    is_binary: ClassVar[bool] = False
    default_for: ClassVar[tuple[str, ...]] = ()
    source: ClassVar[str] = ""

    @property
    def is_log_ratio(self) -> bool:
        """Whether the score is a log likelihood ratio."""
        return False

    @property
    def label(self) -> str:
        """The name, with the options that differ from their defaults: "lira(online=false)"."""
        changed = [
            f"{field.name}={_option_text(getattr(self, field.name))}"
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if _is_changed(field, getattr(self, field.name))
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

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
        scores = scratch.empty((len(targets), design.n_records))
        if not isinstance(scores, np.memmap):  # a pass over a disk is too dear for a check
            scores.fill(np.nan)  # so that what `run` leaves out is noticed
        self.run(signals, design, targets, scores)
        counted = over_blocks(
            design.n_records, lambda columns: int(np.isnan(scores[:, columns]).sum()), scores
        )
        assert sum(counted) == 0, f"{self.name} left {sum(counted)} records without a score"
        return Scores(self.label, targets, scores)

    @abstractmethod
    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Fills `scores`, float64 (targets, columns); may use every model but a target's own membership."""


def _is_changed(field: dataclasses.Field[Any], value: object) -> bool:
    """Whether an option differs from its default; by its text, as a classifier made anew is no other."""
    made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return repr(value) != repr(made)


def _option_text(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
