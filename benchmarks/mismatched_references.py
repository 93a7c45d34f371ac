"""Do the checks of an audit notice references that do not match the target? And matching ones: false alarms?

A population is a given model with 4 or 8 references, trained on random halves of 600 records of three
classes. Each kind of mismatch changes one thing about the references: the recipe, the size of the network,
whom they are trained on, or whom they are said to be trained on. The table says how many populations fail a
check, so that nothing is concluded, and how many get a warning only. Matching references should do neither.
The check of the target's own member list, which finds some of these faults as well, is left out.

    python benchmarks/mismatched_references.py --populations 30
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.evaluate.hygiene.checks import check_all
from leakscope.evaluate.hygiene.outcome import Outcome
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.types import Design, Signals

N, D, CLASSES = 600, 40, 3
COMPARING = ("overlap", "size", "confidence", "accuracy", "reference members")
LINEAR: dict[str, Any] = {"C": 10.0, "max_iter": 1000}
REGULAR: dict[str, Any] = {"C": 0.1, "max_iter": 1000}
LOOSE: dict[str, Any] = {"C": 1e4, "max_iter": 1000}
PERCEPTRON: dict[str, Any] = {"hidden_layer_sizes": (64,), "max_iter": 60, "batch_size": 32}


class Mismatch(NamedTuple):
    """What is different about the references.

    Attributes:
        name: in words.
        recipe: of the target.
        changes: options of the references that differ.
        of_members: share of the target's members that a reference is trained on.
        of_nonmembers: share of its non-members.
        lists: whose member list each reference is said to have.
    """

    name: str
    recipe: dict[str, Any]
    changes: Mapping[str, Any] = MappingProxyType({})
    of_members: float = 0.5
    of_nonmembers: float = 0.5
    lists: Literal["its own", "the next one's", "its own, in another order"] = "its own"


MATCHING = [
    Mismatch("nothing (logistic regression, C = 10)", LINEAR),
    Mismatch("nothing (logistic regression, C = 0.1)", REGULAR),
    Mismatch("nothing (logistic regression, C = 10,000)", LOOSE),
    Mismatch("nothing (perceptron)", PERCEPTRON),
]
MISMATCHES = [
    Mismatch("regularized 1,000 times less, C = 100 instead of 0.1", REGULAR, {"C": 100.0}),
    Mismatch("regularized 10 times less, C = 1 instead of 0.1", REGULAR, {"C": 1.0}),
    Mismatch("regularized 1,000 times less, C = 10,000 instead of 10", LINEAR, {"C": 1e4}),
    Mismatch("regularized 100 times more, C = 0.1 instead of 10", LINEAR, {"C": 0.1}),
    Mismatch("regularized 10,000 times more, C = 0.001 instead of 10", LINEAR, {"C": 1e-3}),
    Mismatch("a quarter of the epochs", PERCEPTRON, {"max_iter": 15}),
    Mismatch("four times the epochs", PERCEPTRON, {"max_iter": 240}),
    Mismatch("a quarter of the width", PERCEPTRON, {"hidden_layer_sizes": (16,)}),
    Mismatch("four times the width", PERCEPTRON, {"hidden_layer_sizes": (256,)}),
    Mismatch("trained on a quarter as many records", LINEAR, {}, 0.125, 0.125),
    Mismatch("trained on 1.75 times as many records", LINEAR, {}, 0.875, 0.875),
    Mismatch("trained on non-members only", LINEAR, {}, 0.0, 1.0),
    Mismatch("trained mostly on non-members", LINEAR, {}, 0.3, 0.7),
    Mismatch("the member list of the next reference", LINEAR, lists="the next one's"),
    Mismatch("member lists in another order", LINEAR, lists="its own, in another order"),
]


class Population(NamedTuple):
    """Outputs of a target, first, and its references.

    Attributes:
        logits: float32 (models, records, classes).
        labels: int64 (records,).
        in_mask: bool (models, records).
    """

    logits: AnyArray
    labels: IntArray
    in_mask: BoolArray


def population(mismatch: Mismatch, seed: int) -> Population:
    """A target and 4 or 8 references, by turns."""
    rng, labels = np.random.default_rng([seed, 5]), np.arange(N) % CLASSES
    features = rng.normal(size=(N, D)) + rng.normal(0, 0.3, (CLASSES, D))[labels]
    is_member = rng.permutation(N) < N // 2
    n_references = 4 + 4 * (seed % 2)
    in_mask = np.stack([is_member, *(_reference(mismatch, is_member, rng) for _ in range(n_references))])
    recipes = [mismatch.recipe, *([{**mismatch.recipe, **mismatch.changes}] * n_references)]
    models = [
        _fitted(recipe, features[row], labels[row], 100 * seed + m)
        for m, (recipe, row) in enumerate(zip(recipes, in_mask, strict=True))
    ]
    logits = np.stack([np.log(np.maximum(model.predict_proba(features), 1e-30)) for model in models])
    if mismatch.lists == "the next one's":
        in_mask[1:] = np.roll(in_mask[1:], 1, axis=0)
    elif mismatch.lists == "its own, in another order":
        in_mask[1:] = in_mask[1:, rng.permutation(N)]
    return Population(logits.astype(np.float32), labels, in_mask)


def checks(given: Population) -> tuple[Outcome, ...]:
    """What the checks that compare a target with its references say."""
    logits, labels, in_mask = given
    is_label = np.arange(CLASSES) == labels[:, None]  # (records, classes)
    log_odds = logits[:, is_label] - logsumexp(np.where(is_label, -np.inf, logits), axis=-1)
    arrays = {"log_odds": log_odds[:, None], "correct": (logits.argmax(axis=-1) == labels)[:, None]}
    signals, design = Signals(arrays, (1,), labels), Design(in_mask)
    metadata = RecordMetadata(np.arange(N).astype(str), labels.astype(str))
    outcomes = check_all(signals, design, np.array([0]), metadata, to_compare=None)
    return tuple(outcome for outcome in outcomes if outcome.name in COMPARING)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--populations", type=int, default=30, help="per kind of mismatch")
    arguments.add_argument(
        "--matching", type=int, default=120, help="matching populations per recipe, half as many perceptrons"
    )
    options = arguments.parse_args()
    warnings.filterwarnings("ignore")  # trainings that stop before they converge are what is compared
    print("| references differ by | populations | fail a check | warning only | which checks |")
    print("|---|---:|---:|---:|---|")
    for mismatch, n in _wanted(options.matching, options.populations):
        outcomes = [checks(population(mismatch, seed)) for seed in range(n)]
        failed = [{one.name for one in of_run if one.status == "failed"} for of_run in outcomes]
        warned = [{one.name for one in of_run if one.status == "warning"} for of_run in outcomes]
        n_warned = sum(bool(w) and not f for f, w in zip(failed, warned, strict=True))
        named = Counter(name for of_run in failed for name in of_run)
        which = ", ".join(f"{name} {count}" for name, count in named.most_common())
        print(f"| {mismatch.name} | {n} | {sum(map(bool, failed))} | {n_warned} | {which} |", flush=True)


def _wanted(n_matching: int, n_mismatched: int) -> Iterator[tuple[Mismatch, int]]:
    for mismatch in MATCHING:  # perceptrons take longest
        yield mismatch, n_matching // 2 if mismatch.recipe is PERCEPTRON else n_matching
    yield from ((mismatch, n_mismatched) for mismatch in MISMATCHES)


def _reference(mismatch: Mismatch, is_member: BoolArray, rng: np.random.Generator) -> BoolArray:
    row = np.zeros(N, dtype=np.bool_)
    for side, share in ((is_member, mismatch.of_members), (~is_member, mismatch.of_nonmembers)):
        row[rng.permutation(np.flatnonzero(side))[: round(share * side.sum())]] = True
    return row


def _fitted(options: dict[str, Any], features: AnyArray, labels: IntArray, seed: int) -> Any:
    kind = LogisticRegression if "C" in options else MLPClassifier
    return kind(**options, random_state=seed).fit(features, labels)


if __name__ == "__main__":
    main()
