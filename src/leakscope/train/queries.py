"""What a query returns, where that is less than the model's outputs.

`OutputFilter.random_values` answers with the probabilities of random inputs. These are uniform between the
smallest and the largest value of each feature (of each channel of images) over all records, members and not.
There are `RANDOM_INPUTS` of them, the same for all models of a run; which one answers a query is drawn for
every model and record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.mmap_rows import row_blocks
from leakscope.randomness import Purpose, generator
from leakscope.signals.filtered import filtered
from leakscope.signals.output_filter import OutputFilter

RANDOM_INPUTS = 256


Outputs = Callable[[Tensor], Tensor]
"""Of a block of models: (models, rows, ...) -> (models, rows, classes)."""


@dataclass(frozen=True, eq=False)
class RandomQueries:
    """Random inputs, and which of them answers each query of a block of models.

    Attributes:
        x: float32 (random inputs, ...).
        picks: int64 (models, columns).
    """

    x: Tensor
    picks: Tensor

    @classmethod
    def of(cls, x: Tensor, models: Iterable[int], seed: int, n_columns: int) -> RandomQueries:
        """Those of these models, for records `x` that are as networks see them."""
        drawn = torch.from_numpy(random_inputs(x.cpu().numpy(), seed)).to(x.device)
        picks = np.stack([_picks(seed, model, n_columns) for model in models])
        return cls(drawn, torch.from_numpy(picks).to(x.device))

    def asked(self, outputs: Outputs) -> Callable[[slice], Tensor]:
        """What the models answer instead: columns -> logits (models, columns, classes)."""
        logits = outputs(self.x.expand(len(self.picks), *self.x.shape)).float()

        def answers(columns: slice) -> Tensor:
            picks = self.picks[:, columns, None].expand(-1, -1, logits.shape[2])
            return logits.gather(1, picks)

        return answers


def random_inputs(features: AnyArray, seed: int) -> AnyArray:
    """Inputs of the shape and type of the records."""
    axes = (0, *range(2, features.ndim))
    blocks = [features[rows] for rows in row_blocks(features)]
    lowest = np.min([block.min(axis=axes, keepdims=True) for block in blocks], axis=0).astype(np.float64)
    highest = np.max([block.max(axis=axes, keepdims=True) for block in blocks], axis=0).astype(np.float64)
    shape = (RANDOM_INPUTS, *features.shape[1:])
    uniform = generator(seed, 0, Purpose.RANDOM_INPUTS).random(shape)
    drawn = lowest + uniform * (highest - lowest)
    if features.dtype == np.uint8:
        drawn = np.rint(drawn)
    return np.asarray(drawn.astype(features.dtype))


def returned(
    logits: AnyArray, of_random_inputs: AnyArray, outputs: OutputFilter, seed: int, model: int
) -> AnyArray:
    """What queries of one model return; float32 (records, classes), as the logits."""
    answers = None
    if outputs.random_values:
        answers = torch.from_numpy(of_random_inputs[_picks(seed, model, len(logits))])
    shown: AnyArray = filtered(torch.from_numpy(logits), outputs, answers).numpy()
    return shown


def _picks(seed: int, model: int, n_columns: int) -> IntArray:
    """The random input that answers each query of a model; int64 (columns,)."""
    return generator(seed, model, Purpose.OUTPUTS).integers(RANDOM_INPUTS, size=n_columns)
