"""Early warning without reference models: which records does this training run expose?

A few lines in any training loop, once per epoch:

    monitor = leakscope.Monitor(n_records=len(train_set))
    for epoch in range(epochs):
        ...                              # train; collect each record's loss of this epoch
        monitor.update(losses)
        worst = monitor.top(0.05)        # indices of records, most exposed first

A record is exposed when models not trained on it predict it wrongly, and this model, trained on it, does not.
The output of this model without the record is unknown, but before the model has fitted the record its output
is nearly that. So the longer the loss of a record stays high while that of the others falls, the more exposed
the record becomes:

    exposure_i = sum over epochs of sqrt(loss_i) / sum over the same epochs of the records' mean sqrt(loss)

The average record has an exposure of 1. The square root limits the weight of a few huge losses, and the ratio
does not depend on the unit of the loss. docs/monitor.md compares it with the loss-trace spread and other
measures; benchmarks/monitor_on_a_bank.py measures it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from leakscope.array_types import FloatArray, IntArray
from leakscope.disk.scratch import blocks
from leakscope.errors import InputError
from leakscope.signals.exposure import ExposureSums, number_flagged

_LARGEST_FLOAT16 = 65504.0
_RECORDS_AT_ONCE = 65_536  # in the quantiles over the trace


class Monitor:
    """Ranks the records of one training run by predicted exposure, from their training losses alone.

    Memory is `n_records * (16 + 2 * trace_length)` bytes for any number of epochs: by default 80 MB for
    1,000,000 records. Besides the sums behind `exposure`, the monitor stores the losses of at most
    `trace_length` epochs in half precision: of all epochs at first, then of every second one, and so on.

    Attributes:
        n_records: number of records.
        epochs: number of updates so far.
    """

    def __init__(self, n_records: int, trace_length: int = 32) -> None:
        """Creates a monitor without updates.

        Args:
            n_records: number of records; they are numbered from 0.
            trace_length: number of epochs whose losses are stored for `spread`; even, at least 4.
        """
        if n_records < 1:
            raise InputError(f"n_records={n_records}: must be at least 1")
        if trace_length < 4 or trace_length % 2:
            raise InputError(f"trace_length={trace_length}: must be even and at least 4")
        self.n_records = n_records
        self.epochs = 0
        self._sums = ExposureSums(np.zeros(n_records), np.zeros(n_records))
        self._trace = np.full((trace_length, n_records), np.nan, dtype=np.float16)
        self._n_stored = 0
        self._stride = 1

    def update(self, losses: Any, indices: Any = None) -> None:
        """Adds the losses of one epoch.

        The losses may be those of the training batches, with or without augmentation, or those of a pass over
        the records at the end of the epoch.

        Args:
            losses: float (n_records,), or one per index in `indices`; at least 0. An array, a list, or a
                torch tensor on any device.
            indices: int, the records that the losses belong to, without repeats; None means all, in order.

        Raises:
            InputError: the losses are not one finite number of at least 0 per record; nothing is added.
        """
        values = np.asarray(_as_array(losses), dtype=np.float64)
        at = slice(None) if indices is None else np.asarray(_as_array(indices))
        self._check(values, at)
        self._sums.add(values, at)
        self.epochs += 1
        if (self.epochs - 1) % self._stride == 0:
            self._store(values, at)

    def exposure(self) -> FloatArray:
        """Predicted exposure; float64 (n_records,), high means exposed, 1 is average, NaN is unseen."""
        return self._sums.exposure()

    def spread(self) -> FloatArray:
        """Loss-trace spread: interquartile range of each record's stored losses; NaN for an unseen record."""
        trace = self._trace[: self._n_stored]
        spread: FloatArray = np.full(self.n_records, np.nan)
        for part in blocks(self.n_records, _RECORDS_AT_ONCE):
            spread[part] = _quartile_range(trace[:, part].astype(np.float64))
        return spread

    def ranking(self) -> IntArray:
        """Indices of the records with an exposure, most exposed first; ties in ascending order; int64."""
        n_defined = int((self._sums.expected > 0).sum())
        return self._sums.ranking()[:n_defined]

    def top(self, share: float) -> IntArray:
        """Indices of the most exposed `share` of the records with an exposure, at least one; int64."""
        if not 0 < share <= 1:
            raise InputError(f"share={share}: must be above 0 and at most 1")
        ranking = self.ranking()
        return ranking[: number_flagged(len(ranking), share)]

    def _check(self, values: FloatArray, at: npt.NDArray[Any] | slice) -> None:
        n_wanted, of_what = (self.n_records, "records") if isinstance(at, slice) else (at.size, "indices")
        if values.shape != (n_wanted,) or not n_wanted:
            raise InputError(
                f"losses has shape {values.shape}; give one number for each of {n_wanted:,} {of_what}"
            )
        if not isinstance(at, slice):
            self._check_indices(at)
        n_bad = int((~np.isfinite(values) | (values < 0)).sum())
        if n_bad:
            raise InputError(
                f"{n_bad:,} of {len(values):,} losses are NaN, infinite or below 0; leave these records out "
                "of `indices`, or use a loss that is never negative"
            )

    def _check_indices(self, at: npt.NDArray[Any]) -> None:
        if at.ndim != 1 or at.dtype.kind not in "iu" or at.min() < 0 or at.max() >= self.n_records:
            raise InputError(f"indices must be a vector of integers within 0..{self.n_records - 1:,}")
        named = np.zeros(self.n_records, dtype=np.bool_)
        named[at] = True
        if int(named.sum()) < len(at):
            raise InputError("indices name a record twice; give the loss of each record once per epoch")

    def _store(self, values: FloatArray, at: npt.NDArray[Any] | slice) -> None:
        """Stores the losses of the epoch; a full trace first drops every second epoch."""
        if self._n_stored == len(self._trace):
            self._stride *= 2
            half = len(self._trace) // 2
            self._trace[:half] = self._trace[::2]
            self._trace[half:] = np.nan
            self._n_stored = half  # the length is even, so this epoch is the next to store
        self._trace[self._n_stored, at] = np.minimum(values, _LARGEST_FLOAT16)
        self._n_stored += 1


def _quartile_range(traces: FloatArray) -> FloatArray:
    """Interquartile range of each column, ignoring NaN; (epochs, records) -> (records,).

    The same as `np.nanquantile`, which is slow because it visits the columns one by one.
    """
    n = (~np.isnan(traces)).sum(axis=0)
    spread: FloatArray = np.full(traces.shape[1], np.nan)
    seen = np.flatnonzero(n)
    if not len(seen):
        return spread
    ascending = np.sort(traces[:, seen], axis=0)  # NaN last

    def quantile(q: float) -> FloatArray:
        below, share = np.divmod(q * (n[seen] - 1), 1.0)
        low = ascending[below.astype(np.int64), np.arange(len(seen))]
        high = ascending[np.minimum(below.astype(np.int64) + 1, n[seen] - 1), np.arange(len(seen))]
        interpolated: FloatArray = low + share * (high - low)
        return interpolated

    spread[seen] = quantile(0.75) - quantile(0.25)
    return spread


def _as_array(values: Any) -> Any:
    """A torch tensor as an array; numpy cannot read one that requires gradients or is on a GPU."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()
