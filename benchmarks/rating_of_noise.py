"""How often is noise rated? Many populations that leak nothing, judged one by one.

    python benchmarks/rating_of_noise.py --models 16 --records 500 --populations 100

The log-odds of a record are its difficulty plus noise of each model, whether the model was trained on it or
not; `--gap` is added for members. Prints how often each rating occurs, and which figures raise it.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.design import make_design
from leakscope.disk.scratch import IN_MEMORY
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import judge
from leakscope.types import Design, Signals

ASKED = EvaluationConfig("made up", ("eb_lira", "lira", "loss"), (0.1, 0.01, 0.001))


class MadeUpBank(Bank):
    """Signals in memory."""

    scratch = IN_MEMORY
    diverged: dict[int, int] = {}  # noqa: RUF012

    def __init__(self, n_models: int, n_records: int, seed: int, gap: float) -> None:
        self._design = make_design("balanced", n_models, n_records, seed)
        rng = np.random.default_rng([seed, 5])
        noise = rng.normal(0, 1.5, n_records) + rng.normal(size=(n_models, n_records))
        log_odds = 1 + gap * self._design.in_mask + noise
        arrays = {"correct": log_odds > 0, "log_odds": log_odds, "loss": np.logaddexp(0, -log_odds)}
        signals = {name: values[:, None] for name, values in arrays.items()}
        self._signals = Signals(signals, (1,), np.arange(n_records) % 2)
        self.identity = Identity(
            records=RecordsIdentity("made up", n_records, "ab" * 32),
            design=DesignIdentity.of(self._design),
            recipe={"evaluated_epochs": [1]},
            seed=seed,
            signals=tuple(sorted(arrays)),
            block_size=n_models,
        )

    def design(self) -> Design:
        return self._design

    def signals(self) -> Signals:
        return self._signals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("models", 16), ("records", 500), ("populations", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gap", type=float, default=0.0)
    given = parser.parse_args()
    levels: Counter[str] = Counter()
    raised: Counter[tuple[str, str]] = Counter()
    for seed in range(given.populations):
        rating = judge(MadeUpBank(given.models, given.records, seed, given.gap), ASKED).results.rating
        levels[rating.level] += 1
        raised.update((part.about, part.level) for part in rating.parts if part.level != "none found")
    print(given.models, "models,", given.records, "records:", dict(levels), dict(raised))


if __name__ == "__main__":
    main()
