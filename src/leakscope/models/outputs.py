"""What a given model returned: checked, and brought into one form.

Models of all kinds end here, whatever their libraries return: one row per record, one column per class or one
number, all finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, FloatArray
from leakscope.data.predictions import Kind
from leakscope.errors import InputError

_SUM_TOLERANCE = 1e-3  # of a row of probabilities: float16 rounds to about that


class ModelOutputs(NamedTuple):
    """A model's outputs on some records.

    Attributes:
        logits: float32 (records, classes), finite; log-probabilities where the model gives probabilities; one
            column of numbers of a regression model.
        kind: what the model gives.
    """

    logits: npt.NDArray[np.float32]
    kind: Kind


def as_array(outputs: Any) -> FloatArray:
    """What a model returned, as an array of numbers."""
    if hasattr(outputs, "detach"):  # a torch tensor; numpy has no bfloat16
        outputs = outputs.detach().cpu().double().numpy()
    try:
        return np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the model returned {type(outputs).__name__}, expected an array of numbers (records, classes)"
        ) from error


def joined_outputs(
    returned: Sequence[AnyArray], n_records: int, class_names: Sequence[str], source: str
) -> FloatArray:
    """All batches as one float64 array (records, classes), finite also as float32; (records, 1) of numbers.

    Raises:
        InputError: that is not what was returned; `source` is named.
    """
    expected = (n_records, len(class_names) or 1)
    if not class_names:
        returned = [batch[:, None] if batch.ndim == 1 else batch for batch in returned]
    same_shape = len({batch.shape[1:] for batch in returned}) == 1
    outputs = np.concatenate(returned) if same_shape else np.empty(0)
    if outputs.shape != expected:
        shapes = f"outputs of shape {outputs.shape}" if same_shape else "batches of different shapes"
        raise InputError(
            f"{source} returned {shapes}, expected {expected}: one row per record, "
            f"{'one column per class' if class_names else 'one number each'}"
        )
    finite = (np.abs(outputs) <= np.finfo(np.float32).max).all(axis=1)  # false for NaN
    if not finite.all():
        n_bad, first = int((~finite).sum()), int(np.argmin(finite))
        raise InputError(
            f"{source} returned NaN or infinite outputs for {n_bad:,} of {n_records:,} records "
            f"(first: record {first})"
        )
    return outputs


def are_probabilities(outputs: AnyArray) -> bool:
    """Whether every row lies in [0, 1] and adds up to 1."""
    inside = (outputs >= -_SUM_TOLERANCE) & (outputs <= 1 + _SUM_TOLERANCE)
    sums = outputs.sum(axis=1, dtype=np.float64)
    return bool(inside.all() and (np.abs(sums - 1) <= _SUM_TOLERANCE).all())


def columns_of(model_classes: Sequence[str], class_names: Sequence[str], name: str) -> list[int]:
    """Which class of the records each column of the model means: by name, else by number."""
    if set(model_classes) <= set(class_names):
        return [list(class_names).index(c) for c in model_classes]
    if list(model_classes) == [str(number) for number in range(len(class_names))]:
        return list(range(len(class_names)))
    unknown = [c for c in model_classes if c not in class_names]
    raise InputError(
        f"{name} was fitted on {len(model_classes)} classes, of which the records do not have "
        f"{', '.join(unknown[:4])}; the records have {', '.join(list(class_names)[:4])}"
    )
