"""Queries: trained models are evaluated on their records, and the answers become signals.

`OutputFilter.random_values` answers with the probabilities of random inputs. These are uniform between the
smallest and the largest value of each feature (of each channel of images) over all records, members and not.
There are `RANDOM_INPUTS` of them, the same for all models of a run; which one answers is drawn for every
model, record and query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from leakscope.array_types import AnyArray, IntArray
from leakscope.disk.mmap_rows import row_blocks
from leakscope.disk.scratch import blocks, evict_pages
from leakscope.randomness import Purpose, generator
from leakscope.signals.filtered import filtered
from leakscope.signals.functions import classification_signals, regression_signals
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import LABEL_ROBUSTNESS, QUERY_LOG_ODDS, of_outputs
from leakscope.train.adapters.documents import Speakers, evaluate_documents
from leakscope.train.dense import DenseStack
from leakscope.train.queries_again import block_label_robustness, block_query_log_odds
from leakscope.types import Design

if TYPE_CHECKING:
    from leakscope.train.loop import Inputs
    from leakscope.train.steps import Stack

EVALUATED_AT_ONCE = 8_000_000  # numbers fed to the models at once when they are evaluated
_MORE_ON_CUDA = 8  # times as many: with small batches a GPU waits for launches
_FEW_NUMBERS = 20_000_000  # activations of all models on all records; some 30 ms with one thread
RANDOM_INPUTS = 256


Answers = Callable[[slice, int], Tensor]
Outputs = Callable[[Tensor], Tensor]
"""Of a block of models: (models, rows, ...) -> (models, rows, classes)."""


@dataclass(frozen=True, eq=False)
class RandomQueries:
    """Random inputs, and which of them answers each query of a block of models.

    Attributes:
        x: float32 (random inputs, ...).
        picks: int64 (queries, models, columns).
    """

    x: Tensor
    picks: Tensor

    @classmethod
    def of(
        cls, x: Tensor, models: Iterable[int], seed: int, n_columns: int, n_queries: int = 1
    ) -> RandomQueries:
        """Those of these models, for records `x` that are as networks see them."""
        drawn = torch.from_numpy(random_inputs(x.cpu().numpy(), seed)).to(x.device)
        own = list(models)
        picks = np.stack([[_picks(seed, m, n_columns, query) for m in own] for query in range(n_queries)])
        return cls(drawn, torch.from_numpy(picks).to(x.device))

    def asked(self, outputs: Outputs) -> Answers:
        """What the models answer instead: columns, query -> logits (models, columns, classes)."""
        logits = outputs(self.x.expand(self.picks.shape[1], *self.x.shape)).float()

        def answers(columns: slice, query: int) -> Tensor:
            picks = self.picks[query, :, columns, None].expand(-1, -1, logits.shape[2])
            return logits.gather(1, picks)

        return answers


def random_queries(inputs: Inputs, design: Design, models: IntArray, seed: int) -> RandomQueries | None:
    """Where queries return the values of random inputs: which."""
    if not inputs.outputs.random_values:
        return None
    n_queries = max(1, len(inputs.queries))
    return RandomQueries.of(inputs.x, models.tolist(), seed, design.n_records, n_queries)


def evaluate(
    stack: Stack,
    inputs: Inputs,
    design: Design,
    signal_names: tuple[str, ...],
    at_random: RandomQueries | None = None,
) -> dict[str, AnyArray]:
    """The block's signals on every column of the design; (models, columns[, classes or queries]) each."""
    if inputs.records is not None and inputs.records.is_language:
        return evaluate_documents(cast(Speakers, stack), inputs, design, signal_names)
    with _threads_for(stack, design):
        return _evaluate(stack, inputs, design, signal_names, at_random)


@contextmanager
def _threads_for(stack: Stack, design: Design) -> Iterator[None]:
    """One thread of torch where little is computed.

    Threads of OpenMP that are done spin for milliseconds, on the cores that train the next block.
    """
    n_numbers = design.in_mask.size * sum(stack.sizes) if isinstance(stack, DenseStack) else _FEW_NUMBERS
    before = torch.get_num_threads()
    if n_numbers >= _FEW_NUMBERS or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _evaluate(
    stack: Stack,
    inputs: Inputs,
    design: Design,
    signal_names: tuple[str, ...],
    at_random: RandomQueries | None,
) -> dict[str, AnyArray]:
    n_models, n_columns = design.in_mask.shape
    columns = None if design.columns is None else torch.from_numpy(design.columns).to(inputs.x.device)
    at_once = EVALUATED_AT_ONCE * (_MORE_ON_CUDA if inputs.x.device.type == "cuda" else 1)
    rows = max(1, at_once // (n_models * max(1, inputs.x[0].numel())))
    names, parts = of_outputs(signal_names), list[dict[str, Tensor]]()
    answers = None if at_random is None else at_random.asked(stack.outputs)
    for some in blocks(n_columns, rows):
        if columns is None:
            x, y = inputs.x[some], inputs.y[some]
            x, y = x.expand(n_models, *x.shape), y.expand(n_models, *y.shape)
        else:
            x, y = inputs.x[columns[:, some]], inputs.y[columns[:, some]]
        z = stack.outputs(x).float().contiguous()  # reductions over a strided axis take ten times as long
        if inputs.on_disk is not None:
            evict_pages(inputs.on_disk)
        if y.is_floating_point():
            outputs, labels = (inputs.y_centre + inputs.y_unit * values for values in (z[..., 0], y))
            parts.append(regression_signals(outputs, labels, inputs.label_spread, names))
        else:
            instead = None if answers is None else answers(some, 0)
            parts.append(classification_signals(filtered(z, inputs.outputs, instead), y, names))
    signals = {name: torch.cat([part[name] for part in parts], dim=1).cpu().numpy() for name in names}
    if LABEL_ROBUSTNESS in signal_names:  # labels alone, which no filter changes
        signals[LABEL_ROBUSTNESS] = block_label_robustness(stack, inputs, design, rows)
    if QUERY_LOG_ODDS in signal_names:
        signals[QUERY_LOG_ODDS] = block_query_log_odds(stack, inputs, design, rows, answers)
    return signals


class Drawn(NamedTuple):
    """What decides which random inputs answer: the run's seed, the model, number of records, the query."""

    seed: int
    model: int
    n_columns: int
    query: int = 0


def random_inputs(features: AnyArray, seed: int) -> AnyArray:
    """Inputs of the shape and type of the records."""
    axes = (0, *range(2, features.ndim))
    parts = [features[rows] for rows in row_blocks(features)]
    lowest = np.min([part.min(axis=axes, keepdims=True) for part in parts], axis=0).astype(np.float64)
    highest = np.max([part.max(axis=axes, keepdims=True) for part in parts], axis=0).astype(np.float64)
    shape = (RANDOM_INPUTS, *features.shape[1:])
    uniform = generator(seed, 0, Purpose.RANDOM_INPUTS).random(shape)
    drawn = lowest + uniform * (highest - lowest)
    if features.dtype == np.uint8:
        drawn = np.rint(drawn)
    return np.asarray(drawn.astype(features.dtype))


def returned(
    logits: AnyArray,
    of_random_inputs: AnyArray,
    outputs: OutputFilter,
    drawn: Drawn,
    rows: slice = slice(None),
) -> AnyArray:
    """What queries of one model about these records return; float32 (records, classes), as the logits."""
    if outputs == NO_FILTER:
        return logits
    answers = None
    if outputs.random_values:
        answers = torch.from_numpy(of_random_inputs[_picks(*drawn)[rows]])
    shown: AnyArray = filtered(torch.from_numpy(np.array(logits)), outputs, answers).numpy()
    return shown


def _picks(seed: int, model: int, n_columns: int, query: int = 0) -> IntArray:
    """The random input that answers a query about each record; int64 (columns,)."""
    return generator(seed, model, Purpose.OUTPUTS, query).integers(RANDOM_INPUTS, size=n_columns)
