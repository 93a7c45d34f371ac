"""Outputs as a query returns them.

A filtered answer is held as logarithms of the probabilities returned, so that every signal is computed from
it as from any other outputs. A probability that the answer does not show is 0 there, which means "less than
half a step", not "impossible": it is raised to the floor of `probabilities.floor_of`. So every signal stays
finite, and the log-odds of an answer of "class 3" alone are those of a classifier without probabilities.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.probabilities import floor_of

_LEAD = 1e-5  # relative; the label returned with rounded probabilities says which of the largest is it


def filtered(logits: Tensor, outputs: OutputFilter, of_random_inputs: Tensor | None = None) -> Tensor:
    """The logits or log-probabilities that a query returns; float (..., classes), as the logits.

    Args:
        logits: of the queries.
        outputs: the filter.
        of_random_inputs: logits of a random input for each query; needed by `outputs.random_values`.
    """
    if outputs == NO_FILTER:
        return logits
    z = logits / outputs.temperature
    if outputs.random_values:
        assert of_random_inputs is not None, "random values need the outputs of random inputs"
        z = in_order_of(z, of_random_inputs / outputs.temperature)
    if outputs.top_1:
        z = _shown(torch.zeros_like(z).scatter(-1, z.argmax(-1, keepdim=True), 1.0), step=1.0)
    elif outputs.digits is not None:
        scale = 10.0**outputs.digits
        top = z.argmax(-1, keepdim=True)
        z = _shown((z.double().softmax(-1) * scale).round() / scale, step=1 / scale)
        z = z.scatter_add(-1, top, z.new_full(top.shape, _LEAD))
    # A model that diverged must not look sane because its answer says little.
    return z.masked_fill(~logits.isfinite().all(-1, keepdim=True), torch.nan)


def in_order_of(logits: Tensor, values: Tensor) -> Tensor:
    """The values of each row, moved so that their order over the classes is that of the logits."""
    return torch.empty_like(logits).scatter(-1, logits.argsort(-1), values.sort(-1).values)


def _shown(p: Tensor, step: float) -> Tensor:
    """Logarithms of probabilities that come in such steps; float32."""
    return p.clamp(min=floor_of(step, p.shape[-1])).log().float()
