"""Risk of each record over many targets: how often is it recognized by models trained with and without it?

When every model of a population is a target in turn, record i has `n_in[i]` targets trained on it and
`n_out[i]` others. Many records share the same counts, so intervals and tests are computed once per distinct
set of counts: a million records take less than a second.

With few targets, even safe records scatter, so a list of exposed records needs `false_discovery`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from leakscope.array_types import AnyArray, BoolArray, FloatArray, IntArray
from leakscope.errors import InputError
from leakscope.stats.intervals import clopper_pearson_bounds

_ALL = slice(None)
_LEVEL = 0.95


class RiskTable(NamedTuple):
    """One entry per distinct set of counts; rates without targets are NaN.

    Attributes:
        n_in: int64, targets trained on the record.
        n_out: int64, targets trained without it.
        tpr: share of the `n_in` targets where the attack says "member".
        fpr: share of the `n_out` targets where it does.
        advantage: `tpr - fpr`, in [-1, 1]; higher means more exposed.
        tpr_low, tpr_high, fpr_low, fpr_high: Clopper-Pearson.
        advantage_low, advantage_high: Newcombe's square-and-add with Clopper-Pearson limits. The error of the
            end nearer to zero is at most as stated, so claims of exposure are conservative; that of the far
            end is up to 8% instead of 2.5% where the true advantage is near -1 or 1.
        p_value: one-sided Fisher exact test of "called a member no more often by targets trained on it"; NaN
            if untested.
    """

    n_in: IntArray
    n_out: IntArray
    tpr: FloatArray
    fpr: FloatArray
    advantage: FloatArray
    tpr_low: FloatArray
    tpr_high: FloatArray
    fpr_low: FloatArray
    fpr_high: FloatArray
    advantage_low: FloatArray
    advantage_high: FloatArray
    p_value: FloatArray


@dataclass(frozen=True, eq=False)
class RecordRisk:
    """Risk of each record, stored once for all records with the same counts.

    Attributes:
        kind: int32 (records,), each record's row of the table.
        table: figures of the distinct counts; intervals of 95%, one record at a time.
    """

    kind: npt.NDArray[np.int32]
    table: RiskTable

    def column(self, name: str, records: slice | IntArray = _ALL) -> AnyArray:
        """One column of the table, per record; (records,)."""
        values: AnyArray = getattr(self.table, name)[self.kind[records]]
        return values

    def exposed(self, q: float) -> BoolArray:
        """Records that are significantly exposed at a false discovery rate of `q`; bool (records,)."""
        n_records = np.bincount(self.kind, minlength=len(self.table.p_value))
        return false_discovery(self.table.p_value, q, n_records)[self.kind]


def record_risk(says_member: BoolArray, in_mask: BoolArray) -> RecordRisk:
    """TPR, FPR and advantage of each record over targets, with intervals and p-values.

    Args:
        says_member: bool (targets, records), the attack's decisions.
        in_mask: bool (targets, records).
    """
    return risk_of_counts(decision_counts(says_member, in_mask))


def risk_of_counts(counts: IntArray | npt.NDArray[np.int32]) -> RecordRisk:
    """`record_risk` from `decision_counts`, which can be computed block by block."""
    base = int(counts.max(initial=0)) + 1
    if base**4 > np.iinfo(np.int64).max:
        raise InputError(f"at most 55,000 targets can be counted, got {base - 1}")
    codes = np.array([base**3, base**2, base, 1]) @ counts
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    of_kind = counts[:, first].astype(np.int64)  # (4, kinds)
    return RecordRisk(kind.reshape(-1).astype(np.int32), _table(of_kind))


def false_discovery(p_values: FloatArray, q: float = 0.05, n_tests: IntArray | None = None) -> BoolArray:
    """Discoveries, among which a share of at most `q` is expected to be false; bool (tests,).

    Benjamini and Hochberg's step-up procedure (1995); valid for independent or positively dependent tests.

    Args:
        p_values: float (tests,); NaN: not tested, and not counted.
        q: false discovery rate, in (0, 1).
        n_tests: int (tests,), how many tests share each p-value; None: one each.
    """
    if not 0 < q < 1:
        raise InputError(f"q must be in (0, 1), got {q}")
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    rank = np.arange(1, len(order) + 1) if n_tests is None else np.cumsum(n_tests[order])
    stepped = p[order] * (int(rank[-1]) if len(rank) else 0) / np.maximum(rank, 1)
    is_discovery = np.zeros(len(p), dtype=np.bool_)
    is_discovery[order] = np.minimum.accumulate(stepped[::-1])[::-1] <= q
    return is_discovery


def decision_counts(says_member: BoolArray, in_mask: BoolArray) -> IntArray:
    """Calls and targets trained on a record, calls and targets trained without it; int64 (4, records)."""
    if says_member.shape != in_mask.shape or in_mask.ndim != 2:
        raise InputError(
            "says_member and in_mask must share one (targets, records) shape, got "
            f"{says_member.shape} and {in_mask.shape}"
        )
    if says_member.dtype != np.bool_ or in_mask.dtype != np.bool_:
        raise InputError("says_member and in_mask must be bool; compare scores with a threshold first")
    parts = (says_member & in_mask, in_mask, says_member & ~in_mask, ~in_mask)
    return np.stack([part.sum(axis=0, dtype=np.int64) for part in parts])


def _table(counts: IntArray) -> RiskTable:
    """The figures of distinct counts, int64 (4, kinds)."""
    n_true, n_in, n_false, n_out = counts
    tpr, fpr = _rate(n_true, n_in), _rate(n_false, n_out)
    tpr_low, tpr_high = np.where(np.isnan(tpr), np.nan, clopper_pearson_bounds(n_true, n_in, _LEVEL))
    fpr_low, fpr_high = np.where(np.isnan(fpr), np.nan, clopper_pearson_bounds(n_false, n_out, _LEVEL))
    advantage = tpr - fpr
    fisher = _fisher(n_true, n_in, n_false, n_out)
    return RiskTable(
        n_in=n_in,
        n_out=n_out,
        tpr=tpr,
        fpr=fpr,
        advantage=advantage,
        tpr_low=tpr_low,
        tpr_high=tpr_high,
        fpr_low=fpr_low,
        fpr_high=fpr_high,
        advantage_low=advantage - np.hypot(tpr - tpr_low, fpr_high - fpr),
        advantage_high=advantage + np.hypot(tpr_high - tpr, fpr - fpr_low),
        p_value=np.where(np.isnan(advantage), np.nan, fisher),
    )


def _fisher(n_true: IntArray, n_in: IntArray, n_false: IntArray, n_out: IntArray) -> FloatArray:
    """One-sided p-values of Fisher's exact test: the chance of at least as many of the calls among members.

    scipy.stats has it, too, but takes longer to import than a small audit takes to attack.
    """
    n_called, n_all, p_value = n_true + n_false, n_in + n_out, np.zeros(len(n_true))
    log_factorial = scipy.special.gammaln(np.arange(1.0, int(n_all.max(initial=0)) + 2))

    def log_choose(n: IntArray, k: IntArray) -> FloatArray:
        return np.asarray(log_factorial[n] - log_factorial[k] - log_factorial[n - k])

    most, log_all = np.minimum(n_in, n_called), log_choose(n_all, n_called)
    for more in range(int((most - n_true).max(initial=0)), -1, -1):  # the smallest chances first
        k = np.minimum(n_true + more, most)
        log_chance = log_choose(n_in, k) + log_choose(n_out, n_called - k) - log_all
        p_value += np.where(n_true + more <= most, np.exp(log_chance), 0.0)
    return np.minimum(p_value, 1.0)


def _rate(successes: IntArray, trials: IntArray) -> FloatArray:
    rate = np.full(len(trials), np.nan)
    np.divide(successes, trials, out=rate, where=trials > 0)
    return rate
