"""The timed trial of the judge: a few small judgements, and the cost of judging every record from them."""

from __future__ import annotations

import time

import numpy as np

from leakscope.array_types import AnyArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.audits.planning.trial import Seconds, Work, elapsed, grown, shuffled
from leakscope.bank.bank import Bank
from leakscope.disk.scratch import IN_MEMORY
from leakscope.engine.request import TrainingRequest
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import judge
from leakscope.evaluate.record_metadata import RecordMetadata, describe_records
from leakscope.evaluate.uncertainty import SAMPLED_SCORES
from leakscope.signals.registry import LABEL_ROBUSTNESS, QUERY_LOG_ODDS, TOKEN_LOG_PROBS
from leakscope.types import Design, Records, Signals

_TRIAL = 3.0  # s; long enough for a second number of models
_FEW, _MORE, _FITTED, _MANY = 1_000, 4_000, EbLira.fitted_records, 40_000  # records
_MOST_BYTES = 1 << 28  # of the features of more than a few records


class RandomBank(Bank):
    """Random signals in memory, to time the judge on."""

    scratch = IN_MEMORY

    def __init__(self, request: TrainingRequest, n_models: int, records: Records) -> None:
        self.identity = request.identity
        self._rng = np.random.default_rng(request.seed)
        self._design = Design(request.design.in_mask[:n_models, : len(records)])
        self._has_shares = records.is_language
        trailing = {"logits": (records.n_classes,), QUERY_LOG_ODDS: (request.queries,)}
        trailing[TOKEN_LOG_PROBS] = (records.features.shape[-1] - 1,)
        arrays = {
            name: self._random_signal(name, trailing.get(name, ())) for name in request.identity.signals
        }
        self._signals = Signals(arrays, (1,), records.labels)

    @property
    def diverged(self) -> dict[int, int]:
        """No model diverged."""
        return {}

    def design(self) -> Design:
        """Some models and records of the real one."""
        return self._design

    def signals(self) -> Signals:
        """The random signals; one checkpoint."""
        return self._signals

    def _random_signal(self, name: str, trailing: tuple[int, ...]) -> AnyArray:
        n_models, n_records = self._design.in_mask.shape
        shape = (n_models, 1, n_records, *trailing)
        if name == LABEL_ROBUSTNESS or (name == "correct" and self._has_shares):
            return self._rng.random(shape, dtype=np.float32)
        values = self._rng.standard_normal(shape, dtype=np.float32)
        return values > 0 if name == "correct" else np.abs(values)


class _Trial:
    """The judge at work on random signals of some of the records."""

    def __init__(self, request: TrainingRequest, config: EvaluationConfig) -> None:
        records, rng = request.records, np.random.default_rng(request.seed)
        self._request, self._config = request, config
        self._order = shuffled(np.arange(len(records)), records, rng)
        self._described: dict[int, tuple[RecordMetadata, float]] = {}
        features = records.features if records.frame is None else records.frame
        self.most = min(len(records), max(_FEW, _MOST_BYTES * len(records) // max(1, features.nbytes)))

    def judged(self, n_models: int, n_records: int, n_repeated: int) -> Work:
        """Judges so many records, and repeats the attacks on so many of them."""
        bank = RandomBank(self._request, n_models, self._some(n_records))
        metadata, _ = self._metadata(n_records)
        return lambda: judge(bank, self._config, metadata, sampled_scores=n_repeated * n_models)

    def describing(self, n_records: int) -> float:
        """Seconds to describe so many records."""
        return self._metadata(n_records)[1]

    def _metadata(self, n_records: int) -> tuple[RecordMetadata, float]:
        if n_records not in self._described:
            some, design = self._some(n_records), Design(self._request.design.in_mask[:, :n_records])
            started = time.perf_counter()
            metadata = describe_records(some, design)
            self._described[n_records] = metadata, time.perf_counter() - started
        return self._described[n_records]

    def _some(self, n_records: int) -> Records:
        return self._request.records.take(self._order[:n_records])


def judging_seconds(request: TrainingRequest, config: EvaluationConfig) -> Seconds:
    """The cost of a few records, and what each further record adds.

    The audit scores every record, but fits its attacks to some of them, and repeats them without some of the
    models on a sample only (`SAMPLED_SCORES`). Most of the time goes there, so each is measured apart.
    """
    n_models, n_records, trial = request.design.n_models, len(request.records), _Trial(request, config)
    n_sampled = min(n_records, max(1, SAMPLED_SCORES // n_models))
    few, more = (min(n_sampled, trial.most, n) for n in (_FEW, _MORE))
    first = grown(lambda n: trial.judged(n, few, few), min(16, n_models), n_models, _TRIAL)

    def seconds(n: int, n_repeated: int) -> float:
        """Of so many records with as many models as were tried; never fewer than of the few."""
        return max(elapsed(trial.judged(first.largest, n, n_repeated)), first.measured)

    both = (seconds(more, more) - first.measured) / (more - few) if more > few else 0.0
    beyond = both * (n_records - few)
    if n_records > n_sampled:
        fitted, many = min(trial.most, _FITTED), min(trial.most, _MANY)
        fitting = seconds(fitted, few) - first.measured if fitted > few else 0.0
        scored = fitting / max(1, fitted - few)
        beyond = fitting + max(both - scored, 0.0) * (n_sampled - few)
        if many > fitted:
            scored = max(seconds(many, few) - first.measured - fitting, 0.0) / (many - fitted)
        beyond += scored * (n_records - fitted)
    beyond *= n_models / first.largest
    return first.full + Seconds(beyond, beyond, beyond) + _describing_seconds(trial, n_records)


def _describing_seconds(trial: _Trial, n_records: int) -> Seconds:
    """Linear beyond the second of two sizes; most checks look at a fixed number of records."""
    more, many = min(trial.most, _MORE), min(trial.most, _MANY)
    seconds = trial.describing(many)
    if many > more:
        seconds += max(seconds - trial.describing(more), 0.0) / (many - more) * (n_records - many)
    return Seconds(seconds, seconds, seconds)
