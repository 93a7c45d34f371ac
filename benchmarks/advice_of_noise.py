"""Does advice recommend a defence that does nothing, and does it promise too much of one that works?

    python benchmarks/advice_of_noise.py --tables 40

Made-up populations: the log-odds of a record are its difficulty plus noise of each model, plus a gap for
members. Where nothing helps, all populations have the same gap, and whatever is recommended was lucky. Where
all defences help alike, the recommended one was the luckiest of them; other models with its gap, of another
design, should have an AUC in the interval that was promised. Single records are rated with LiRA here, which
is faster than EB-LiRA; no recommendation reads the rating.
"""

from __future__ import annotations

import argparse

import numpy as np

import leakscope.evaluate.attacked
import leakscope.evaluate.judge
from leakscope.advice.judge import judged
from leakscope.advice.results import AdviceConfig, AdviceResults
from leakscope.advice.sentences import promised
from leakscope.attacks.lira import Lira
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.design import make_design
from leakscope.disk.scratch import IN_MEMORY
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import judge
from leakscope.types import Design, Signals

ATTACKS, FPR = ("loss", "lira"), 0.1
NOTHING_HELPS, WITHOUT, WITH = 0.5, 1.5, 0.5


class MadeUpBank(Bank):
    """Signals in memory: `table` is the seed of the difficulties, `design` of the memberships."""

    scratch = IN_MEMORY
    diverged: dict[int, int] = {}  # noqa: RUF012

    def __init__(self, shape: tuple[int, int], table: int, design: int, noise: int, gap: float) -> None:
        self._design = make_design("balanced", *shape, design)
        difficulty = np.random.default_rng([table, 5]).normal(0, 1.5, shape[1])
        noises = np.random.default_rng([table, design, noise, 6]).normal(size=shape)
        log_odds = 1 + difficulty + gap * self._design.in_mask + noises
        arrays = {"correct": log_odds > 0, "log_odds": log_odds, "loss": np.logaddexp(0, -log_odds)}
        labels = np.arange(shape[1]) % 2
        self._signals = Signals({name: values[:, None] for name, values in arrays.items()}, (1,), labels)
        self.identity = Identity(
            records=RecordsIdentity("made up", shape[1], "ab" * 32),
            design=DesignIdentity.of(self._design),
            recipe={"evaluated_epochs": [1]},
            seed=noise,
            signals=tuple(sorted(arrays)),
            block_size=shape[0],
        )

    def design(self) -> Design:
        return self._design

    def signals(self) -> Signals:
        return self._signals


def config_of(n_defences: int, n_models: int) -> AdviceConfig:
    defences = tuple(f"mixup(alpha={k + 1})" for k in range(n_defences))
    return AdviceConfig(
        toml=None, records="made up", records_sha256="ab" * 32, recipe={}, minutes=1.0, accepted_loss=0.02,
        utility="accuracy", unit=None,
        seed=0, design="balanced", models=n_models, attacks=ATTACKS, fpr=FPR, defences=defences,
        settings=dict.fromkeys(defences, ""), not_applicable={},
    )  # fmt: skip


def advised(config: AdviceConfig, n_records: int, table: int, gap: float, other_gap: float) -> AdviceResults:
    """Advice on one population with `gap`, and as many as there are defences with `other_gap`."""
    shape = config.models, n_records
    with_defence = {
        name: MadeUpBank(shape, table, table, 1 + at, other_gap) for at, name in enumerate(config.defences)
    }
    return judged(config, MadeUpBank(shape, table, table, 0, gap), with_defence)


def auc_again(config: AdviceConfig, n_records: int, table: int, gap: float) -> float:
    """The AUC of the strongest attack on other models of another design, for the same records."""
    bank = MadeUpBank((config.models, n_records), table, 100_000 + table, 0, gap)
    attacks = judge(bank, EvaluationConfig("made up", ATTACKS, (FPR,))).results.attacks
    return max(attacks[name].auc.value or 0.0 for name in ATTACKS)


def count_lucky(config: AdviceConfig, n_records: int, n_tables: int) -> None:
    n_lucky = 0
    for table in range(n_tables):
        n_lucky += advised(config, n_records, table, NOTHING_HELPS, NOTHING_HELPS).recommended is not None
    print(f"no defence does anything: {n_lucky} of {n_tables} tables recommend one", flush=True)


def count_kept(config: AdviceConfig, n_records: int, n_tables: int) -> None:
    n, kept, kept_alone = 0, 0, 0
    for table in range(n_tables):
        best = advised(config, n_records, table, WITHOUT, WITH).best
        if best is None:
            continue
        again, n = auc_again(config, n_records, table, WITH), n + 1
        ends, alone = (promised(best.population.auc, k) for k in (len(config.defences), 1))
        kept, kept_alone = kept + (ends[0] <= again <= ends[1]), kept_alone + (alone[0] <= again <= alone[1])
    print(f"all defences help alike: {n} of {n_tables} tables recommend one; audited again, {kept} have "
          f"the AUC promised, {kept_alone} one within an interval that ignores the choice")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("tables", 40), ("defences", 12), ("models", 16), ("records", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", choices=("lucky", "kept"))
    given = parser.parse_args()
    for module in (leakscope.evaluate.attacked, leakscope.evaluate.judge):
        module.PER_RECORD = Lira()  # type: ignore[attr-defined]
    config = config_of(given.defences, given.models)
    print(f"{given.defences} defences, {given.models} models each, {given.records} records", flush=True)
    if given.only != "kept":
        count_lucky(config, given.records, given.tables)
    if given.only != "lucky":
        count_kept(config, given.records, given.tables)


if __name__ == "__main__":
    main()
