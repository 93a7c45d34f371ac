"""The contract of an attack, and every check around it.

An attack answers, for each (target model, record), how much it looks like a member; higher always
means "member". With one population every model can be the target in turn, judged by the others.
An attack writes only `run`; calling it checks what goes in and what comes out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from leakscope.errors import InputError
from leakscope.types import Design, FloatArray, IntArray, Scores, Signals


class Attack(ABC):
    """A membership attack.

    Subclasses are frozen dataclasses: hyper-parameters in fields, data in the call.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __call__(self, signals: Signals, design: Design, targets: IntArray | None = None) -> Scores:
        """Scores every column for each target model.

        Args:
            signals: the bank's answers.
            design: who was in which training set.
            targets: model indices to attack; None: every model in turn.

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
        values = np.asarray(self.run(signals, design, targets), dtype=np.float64)
        assert values.shape == (len(targets), design.n_columns), f"{self.name} returned shape {values.shape}"
        n_undefined = int(np.isnan(values).sum())
        assert n_undefined == 0, f"{self.name} left {n_undefined} records without a score"
        return Scores(self.name, targets, values)

    @abstractmethod
    def run(self, signals: Signals, design: Design, targets: IntArray) -> FloatArray:
        """float64 (targets, columns); may use every model but a target's own membership."""
