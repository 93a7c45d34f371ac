"""Every attack meets the contract of `leakscope.testing`, and every rule of the contract can be broken."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields, replace

import numpy as np
import pytest

from leakscope.attacks import Attack, Base, Bavaria, EbLira, Lira, Rmia
from leakscope.attacks.registry import attack_classes
from leakscope.errors import InputError
from leakscope.signals.registry import LANGUAGE, REGRESSION
from leakscope.testing import attack_contract as testing
from leakscope.testing import check_attack, planted_bank
from leakscope.types import Design, Signals

# Every attack with its defaults, and the variants that compute something else.
CASES = {
    **{name: attack() for name, attack in attack_classes().items()},
    "lira, record": Lira(variance="record"),
    "lira, global and median": Lira(variance="global", centre="median"),
    "lira, offline": Lira(online=False),
    "rmia, offline": Rmia(online=False),
    "bavaria, offline": Bavaria(online=False),
    "bavaria, t": Bavaria(variant="t"),
    "bavaria, t, offline": Bavaria(variant="t", online=False),
    "base, offline": Base(online=False),
    "eb_lira, offline": EbLira(online=False),
    "lira, a signal of documents": Lira(signal="standardized_lowest"),
    "rmia, a signal of documents": Rmia(signal="error_gap", gamma=1.1),
    "bavaria, a signal that is low for members": Bavaria(signal="zlib_ratio"),
}


@pytest.fixture(params=CASES)
def attack(request):
    return CASES[request.param]


# The same rules hold for other attacks and variants in seconds; these take many.
LONG = {
    ("eb_lira", testing.memory_is_bounded),
    ("eb_lira", testing.detects_nothing_without_leakage),
    ("eb_lira, offline", testing.memory_is_bounded),
    ("eb_lira, offline", testing.detects_nothing_without_leakage),
    ("lira, global and median", testing.memory_is_bounded),
    ("quantile", testing.detects_nothing_without_leakage),
}
CASES_AND_RULES = [
    pytest.param(
        case,
        rule,
        task,
        id=f"{name}-{rule.__name__}-{task}",
        marks=pytest.mark.slow if task == REGRESSION or (name, rule) in LONG else (),
    )
    for name, case in CASES.items()
    for rule in testing.RULES
    for task in testing.checked_tasks(case)
]
CASES_AND_RULES += [
    pytest.param(attack, rule, LANGUAGE, id=f"{attack.label}-{rule.__name__}-documents")
    for attack in (Lira(), EbLira(), Rmia(gamma=1.0))
    for rule in (testing.own_membership_is_not_used, testing.detects_planted_leakage)
]


@pytest.mark.parametrize(("attack", "rule", "task"), CASES_AND_RULES)
def test_a_rule_of_the_contract(attack, rule, task):
    rule(attack, task)


def test_names_are_the_attacks_own():
    assert all(name == attack.name for name, attack in attack_classes().items())
    assert all(issubclass(attack, Attack) and attack().source for attack in attack_classes().values())


def bank_for(attack, **options):
    return planted_bank(task=testing.checked_tasks(attack)[0], **options)


def test_scores_carry_the_label_and_one_row_per_target(attack):
    signals, design = bank_for(attack, gap=1.0)
    scores = attack(signals, design)
    assert scores.attack == attack.label
    assert scores.targets.tolist() == list(range(8))
    assert scores.values.shape == (8, 200)
    assert scores.values.dtype == np.float64


def test_only_the_last_checkpoint_counts(attack):
    signals, design = bank_for(attack, gap=2.0, n_models=4, n_records=40)
    earlier, _ = bank_for(attack, gap=0.0, n_models=4, n_records=40, seed=5)
    both = {
        name: np.concatenate([earlier.arrays[name], values], axis=1)
        for name, values in signals.arrays.items()
    }
    scores = attack(Signals(both, (1, 2), signals.labels), design).values
    np.testing.assert_array_equal(scores, attack(signals, design).values)


def test_a_missing_signal_is_named(attack):
    signals, design = bank_for(attack, gap=2.0, n_models=4, n_records=40)
    for needed in attack.reads_from(signals):
        others = {name: values for name, values in signals.arrays.items() if name != needed}
        with pytest.raises(InputError, match=f"no signal '{needed}'"):
            attack(replace(signals, arrays=others), design)


def test_a_design_of_another_size_is_refused(attack):
    signals, design = bank_for(attack, gap=2.0, n_models=4, n_records=40)
    for in_mask in (design.in_mask[:3], design.in_mask[:, :39]):
        with pytest.raises(InputError, match=rf"{attack.name}: signal .* both must be \(models, records\)"):
            attack(signals, Design(in_mask))


def test_options_are_frozen(attack):
    for field in fields(attack):
        with pytest.raises(FrozenInstanceError):
            setattr(attack, field.name, None)


@dataclass(frozen=True)
class _Good(Attack):
    """Meets the contract; each class below breaks one rule of it."""

    name = "good"
    needs = ("log_odds",)
    references = "none"

    def score(self, block):
        return block.of_targets("log_odds")


@dataclass(frozen=True)
class _Lenient(_Good):
    power: int = 1

    def __post_init__(self):
        pass


class _Infinite(_Good):
    def score(self, block):
        return np.where(super().score(block) > 3, np.inf, super().score(block))


class _Writer(_Good):
    def score(self, block):
        block.arrays["log_odds"][:] *= 2
        return super().score(block)


class _Cheat(_Good):
    references = "both"

    def score(self, block):
        return super().score(block) + block.in_mask[block.targets]


class _Ranker(_Good):
    """Scores are relative to the other targets."""

    def score(self, block):
        scores = super().score(block)
        return scores - scores.mean(axis=0)


class _Positional(_Good):
    """The first records of a population score higher."""

    def run(self, signals, design, targets, scores):
        super().run(signals, design, targets, scores)
        scores += np.linspace(1, 0, scores.shape[1])


class _PerBlock(_Good):
    """Scores are relative to the block, whatever its size."""

    def score(self, block):
        scores = super().score(block)
        return scores - scores.mean(axis=1, keepdims=True)


class _Hoarder(_Good):
    def run(self, signals, design, targets, scores):
        scores[:] = signals.last("log_odds")[targets].astype(np.float64)


class _Inverted(_Good):
    def score(self, block):
        return -super().score(block)


class _DesignReader(_Good):
    """Where all models but one are known, a balanced design reveals the last."""

    references = "both"

    def score(self, block):
        n_in = block.in_mask.sum(axis=0) - block.in_mask[block.targets]
        return super().score(block) - 0.5 * n_in


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (_Lenient(), "option 'power' accepts any object"),
        (_Infinite(), "scores are not finite"),
        (_Writer(), "writes to its inputs"),
        (_Cheat(), "depend on its own membership"),
        (_Ranker(), "depend on which other models are attacked"),
        (_Positional(), "depend on the order of the records"),
        (_PerBlock(), "depend on the size of blocks"),
        (_Hoarder(), "allocates arrays of all models and all records"),
        (_Inverted(), "does not detect planted leakage"),
        (_DesignReader(), "infers membership from the design alone"),
    ],
    ids=lambda value: type(value).__name__.strip("_") if isinstance(value, Attack) else "",
)
def test_an_attack_that_breaks_a_rule_is_told_which(broken, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_attack(broken)


def test_an_attack_that_meets_every_rule_passes():
    check_attack(_Good())
