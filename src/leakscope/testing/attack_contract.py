"""Check an attack of your own against the contract that every shipped attack meets.

    from leakscope.testing import check_attack

    check_attack(MyAttack(power=2))

`check_attack` needs no test framework: it raises an AssertionError that names the broken rule. `planted_bank`
makes the synthetic populations it uses, whose leakage is known.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.spec import resolve, spec_of
from leakscope.design import make_design
from leakscope.disk.scratch import Scratch, small_blocks
from leakscope.errors import InputError
from leakscope.signals.registry import (
    CLASSIFICATION,
    LABEL_ROBUSTNESS,
    LANGUAGE,
    QUERY_LOG_ODDS,
    REGRESSION,
    Task,
    names_of,
    of_outputs,
)
from leakscope.signals.residuals import label_spread
from leakscope.stats.roc import auc
from leakscope.testing.documents import planted_documents
from leakscope.types import Design, Signals
from leakscope.user_code import names_code

_SEEDS = range(8)
_MEASURED_MODELS = 32
_MEASURED_RECORDS = (10_240, 14_336)  # more than attacks such as eb_lira sample
_WHOLE_ARRAY_BYTES = 4 * _MEASURED_MODELS  # per record, of a float32 array of all models and records


class PlantedBank(NamedTuple):
    """A synthetic population, and who was in which training set."""

    signals: Signals
    design: Design


def check_attack(attack: Attack) -> None:
    """Checks an attack against the contract of `leakscope.Attack`; takes some seconds.

    Raises:
        AssertionError: names the rule that the attack breaks.
    """
    for task in checked_tasks(attack):
        for rule in RULES:
            rule(attack, task)


def checked_tasks(attack: Attack) -> tuple[Task, ...]:
    """The tasks whose models the attack says it can attack.

    A signal of the user's own may be for classifiers only; it is checked on regression models where the
    attack names it in `needs_in_regression`. Language models are for attacks that classifiers do not have the
    signals for: the others read from documents what they read from classes.
    """
    is_known = attack.needs_in_regression is not None or not any(map(names_code, attack.needs))
    tasks = (CLASSIFICATION, REGRESSION) if is_known else (CLASSIFICATION,)
    return tuple(task for task in tasks if attack.reads(task)) or (LANGUAGE,)


def planted_bank(
    gap: float,
    n_models: int = 8,
    n_records: int = 200,
    kind: str = "bernoulli",
    seed: int = 0,
    needs: tuple[str, ...] = (),
    task: Task = CLASSIFICATION,
) -> PlantedBank:
    """A synthetic population whose leakage is known, of three classes, of a regression or of documents.

    A model's logit of the label is the record's own ease, plus noise, plus `gap` for members. Three quarters
    of the records have label 0, so that leakage is also visible in the probabilities alone. A regression
    model's residual is the record's own, plus noise, multiplied by `exp(-gap / 2)` for members. A language
    model has such logits for each of a few tokens.

    Args:
        gap: how much higher members' logits are, or how much smaller their residuals; 0: no leakage.
        n_models: number of models.
        n_records: number of records.
        kind: of the design: "balanced", "bernoulli" or "pairs".
        seed: all randomness derives from it.
        needs: further signals than the shipped ones, as "package.module:function".
        task: what the models predict.
    """
    design = make_design(kind, n_models, n_records, seed)
    return _planted(gap, design, seed, tuple(dict.fromkeys((*names_of(task), *needs))), task)


def _planted(gap: float, design: Design, seed: int, names: tuple[str, ...], task: Task) -> PlantedBank:
    """The synthetic population of a design, with the named signals."""
    rng = np.random.default_rng([seed, 1])
    if task == REGRESSION:
        return PlantedBank(_planted_regression(gap, design, rng, names), design)
    if task == LANGUAGE:
        return PlantedBank(planted_documents(gap, design, rng, names), design)
    n_models, n_records = design.in_mask.shape
    labels = np.where(np.arange(n_records) % 4 == 3, 1 + np.arange(n_records) // 4 % 2, 0)
    ease = rng.normal(scale=1.5, size=n_records)
    logits = rng.normal(size=(n_models, n_records, 3))
    logits += np.eye(3)[labels] * (ease + gap * design.in_mask)[..., None]
    return PlantedBank(_signals(logits, labels, names), design)


def _planted_regression(
    gap: float, design: Design, rng: np.random.Generator, names: tuple[str, ...]
) -> Signals:
    import torch

    from leakscope.signals.functions import regression_signals

    labels = rng.normal(scale=2.0, size=design.n_records).astype(np.float32)
    residual = rng.normal(size=design.n_records) + 0.7 * rng.normal(size=design.in_mask.shape)
    outputs = labels + residual * np.exp(-gap / 2 * design.in_mask)
    tensors = regression_signals(
        torch.from_numpy(outputs.astype(np.float32)), torch.from_numpy(labels), label_spread(labels), names
    )
    return Signals({name: values.numpy()[:, None] for name, values in tensors.items()}, (1,), labels)


def _signals(logits: FloatArray, labels: IntArray, names: tuple[str, ...]) -> Signals:
    """The signals of logits (models, records, classes) at one checkpoint."""
    import torch

    from leakscope.signals.functions import classification_signals

    of_models = np.broadcast_to(labels, logits.shape[:2]).copy()
    tensors = classification_signals(
        torch.from_numpy(logits.astype(np.float32)),
        torch.from_numpy(of_models),
        tuple(dict.fromkeys([*of_outputs(names), "true_prob", "log_odds"])),
    )
    # As many of 25 changed versions of a record get its label as its probability says.
    tensors[LABEL_ROBUSTNESS] = (25 * tensors["true_prob"]).round() / 25
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(*of_models.shape, 2)).astype(np.float32))
    views = [tensors["log_odds"], *(tensors["log_odds"] + noise[..., view] for view in range(2))]
    tensors[QUERY_LOG_ODDS] = torch.stack(views, dim=-1)
    return Signals({name: tensors[name].numpy()[:, None] for name in names}, (1,), labels)


def _bank(attack: Attack, task: Task, gap: float, n_models: int = 8, n_records: int = 200,
          kind: str = "bernoulli", seed: int = 0) -> PlantedBank:  # fmt: skip
    """A planted bank with only the signals that the attack declares."""
    names = attack.reads(task)
    if task == LANGUAGE and set(names) <= set(names_of(LANGUAGE)):
        signals, design = _documents(gap, n_models, n_records, kind, seed)
        own = {name: signals.arrays[name].copy() for name in names}  # an attack may write to its inputs
        return PlantedBank(replace(signals, arrays=own), replace(design, in_mask=design.in_mask.copy()))
    design = make_design(kind, n_models, n_records, seed)
    return _planted(gap, design, seed, names, task)


@lru_cache(maxsize=64)
def _documents(gap: float, n_models: int, n_records: int, kind: str, seed: int) -> PlantedBank:
    """Documents with all signals; they take longer to make than most attacks take to score them."""
    return planted_bank(gap, n_models, n_records, kind, seed, task=LANGUAGE)


def _aucs(attack: Attack, task: Task, gap: float, kind: str = "bernoulli", seed: int = 0) -> FloatArray:
    """The AUC on every target; (targets,)."""
    signals, design = _bank(attack, task, gap, kind=kind, seed=seed)
    scores = attack(signals, design).values
    return np.array([auc(own, members) for own, members in zip(scores, design.in_mask, strict=True)])


def options_are_plain_data(attack: Attack, _task: Task = CLASSIFICATION) -> None:
    """Options survive the way through text, and a value of the wrong type is refused."""
    again = resolve(spec_of(attack))
    assert again == attack, (
        f"{attack.label}: resolve({spec_of(attack)!r}) gives another attack, {again.label}"
    )
    for field in fields(attack):
        try:
            replace(attack, **{field.name: object()})
        except InputError:
            continue
        raise AssertionError(
            f"{attack.label}: option {field.name!r} accepts any object; where the class has __post_init__, "
            "call super().__post_init__() first"
        )


def detects_planted_leakage(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """Members score higher than non-members, the more so the larger the leakage."""
    none, some, much = (_aucs(attack, task, gap) for gap in (0.0, 1.0, 3.0))
    assert much.min() > 0.55 and much.mean() > 0.6, (
        f"{attack.label} does not detect planted leakage: AUC {much.min():.3f} to {much.max():.3f} over the "
        "targets; do higher scores mean member?"
    )
    assert none.mean() < some.mean() < much.mean(), (
        f"{attack.label} does not detect more leakage better: mean AUC {none.mean():.3f}, {some.mean():.3f}, "
        f"{much.mean():.3f} as leakage grows"
    )


def detects_nothing_without_leakage(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """The mean AUC is 0.5 where members and non-members do not differ.

    In a balanced design the other models' memberships reveal the target's, which no attack may use: it reads
    the references that `Block.is_reference` allows, as many for a member as for a non-member.
    """
    independent = np.mean([_aucs(attack, task, 0.0, seed=seed).mean() for seed in _SEEDS])
    assert abs(independent - 0.5) <= 0.015, (
        f"{attack.label} reports leakage where there is none: mean AUC {independent:.3f}, expected 0.5"
    )
    balanced = np.mean([_aucs(attack, task, 0.0, "balanced", seed).mean() for seed in _SEEDS])
    assert abs(balanced - 0.5) <= 0.015, (
        f"{attack.label} infers membership from the design alone: mean AUC {balanced:.3f} in a balanced "
        "design without leakage; read the models that Block.is_reference allows"
    )


def scores_are_finite(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """Every target and record has a finite score, also in a population of a few models."""
    for kind, n_models in (("bernoulli", 8), ("pairs", 2), ("bernoulli", 3), ("balanced", 4)):
        scores = attack(*_bank(attack, task, 1.0, n_models, kind=kind)).values
        n_infinite = int((~np.isfinite(scores)).sum())
        assert not n_infinite, f"{attack.label}: {n_infinite} scores are not finite with {n_models} models"


def own_membership_is_not_used(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """A target's scores stay the same when its own row of the design is flipped."""
    signals, design = _bank(attack, task, 2.0, n_models=6, n_records=80)
    for target in (0, 3):
        in_mask = design.in_mask.copy()
        in_mask[target] = ~in_mask[target]
        for targets in (np.array([target]), np.arange(6)):  # alone, and through what targets share
            row = targets.tolist().index(target)
            scores, expected = (attack(signals, d, targets).values for d in (Design(in_mask), design))
            assert _are_close(scores[row], expected[row], 1e-9), (
                f"{attack.label}: a target's scores depend on its own membership, which is what they infer"
            )


def targets_are_independent(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """A target's scores do not depend on which other models are targets."""
    signals, design = _bank(attack, task, 2.0, n_models=6, n_records=60)
    some = attack(signals, design, np.array([4, 1])).values
    assert _are_close(some, attack(signals, design).values[[4, 1]], 1e-12, 0.0), (
        f"{attack.label}: a target's scores depend on which other models are attacked"
    )


def order_does_not_matter(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """Another order of models and records gives the same scores, up to where an iterative fit stops."""
    signals, design = _bank(attack, task, 2.0, n_models=4, n_records=60)
    rng = np.random.default_rng(0)
    models, records = rng.permutation(4), rng.permutation(60)
    expected = attack(signals, design).values[models]
    moved = attack(signals.take(models), design.take(models)).values
    assert _are_close(moved, expected, 0.0, 2e-3), f"{attack.label}: scores depend on the order of the models"
    arrays = {name: values[models][:, :, records] for name, values in signals.arrays.items()}
    shuffled = Signals(arrays, signals.epochs, signals.labels[records])
    moved = attack(shuffled, Design(design.in_mask[models][:, records])).values
    if attack.orders_records:  # other folds of records, the same evidence
        correlation = np.corrcoef(moved.ravel(), expected[:, records].ravel())[0, 1]
        assert correlation > 0.9, f"{attack.label}: another order of records gives quite other scores"
    else:
        assert _are_close(moved, expected[:, records], 0.0, 2e-3), (
            f"{attack.label}: scores depend on the order of the records; if that is meant, set orders_records"
        )


def inputs_are_unchanged(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """The attack does not write to the signals or the design."""
    signals, design = _bank(attack, task, 2.0, n_models=4, n_records=40)
    inputs = [*signals.arrays.values(), design.in_mask, signals.labels]
    before = [array.copy() for array in inputs]
    attack(signals, design)
    is_same = all(np.array_equal(array, copy) for array, copy in zip(inputs, before, strict=True))
    assert is_same, f"{attack.label} writes to its inputs; copy what you change"


def blocks_do_not_matter(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """Small blocks, and signals and scores on disk, give the same scores as one block in memory."""
    signals, design = _bank(attack, task, 2.0)
    expected = attack(signals, design).values
    with _on_disk(signals, design) as (mapped, folder), small_blocks(7, n_threads=2):
        scores = attack(*mapped, scratch=Scratch(folder, in_memory_bytes=0)).values
        assert _are_close(scores, expected, 1e-9), (
            f"{attack.label}: scores depend on the size of blocks, or on where arrays are stored"
        )


def memory_is_bounded(attack: Attack, task: Task = CLASSIFICATION) -> None:
    """No array of all models and all records is allocated: more records take little more memory."""
    if attack.in_memory:
        return
    small, large = (_peak_bytes(attack, task, n_records) for n_records in _MEASURED_RECORDS)
    per_record = (large - small) / (_MEASURED_RECORDS[1] - _MEASURED_RECORDS[0])
    assert per_record < 0.75 * _WHOLE_ARRAY_BYTES, (
        f"{attack.label} allocates arrays of all models and all records ({per_record:.0f} bytes per record "
        f"with {_MEASURED_MODELS} models); score block by block, or set in_memory = True"
    )


def _peak_bytes(attack: Attack, task: Task, n_records: int) -> int:
    """Memory the attack allocates at most, in small blocks, with signals and scores on disk."""
    bank = _bank(attack, task, 1.0, _MEASURED_MODELS, n_records)
    targets = np.arange(_MEASURED_MODELS) // 8 * 8  # as many as models, but few different ones: less to fit
    with _on_disk(*bank) as (mapped, folder), small_blocks(2048, n_threads=1):
        tracemalloc.start()
        try:
            attack(*mapped, targets, Scratch(folder, in_memory_bytes=0))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@contextmanager
def _on_disk(signals: Signals, design: Design) -> Iterator[tuple[PlantedBank, Path]]:
    """The same bank as memory maps, and their folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def mapped(array: AnyArray, number: int) -> AnyArray:
            np.save(folder / f"{number}.npy", array)
            on_disk: AnyArray = np.load(folder / f"{number}.npy", mmap_mode="r")
            return on_disk

        arrays = {name: mapped(a, at) for at, (name, a) in enumerate(signals.arrays.items())}
        bank = PlantedBank(replace(signals, arrays=arrays), Design(mapped(design.in_mask, len(arrays))))
        yield bank, folder


def _are_close(one: FloatArray, other: FloatArray, rtol: float, atol: float | None = None) -> bool:
    return bool(np.allclose(one, other, rtol=rtol, atol=rtol if atol is None else atol))


RULES: tuple[Callable[[Attack, Task], None], ...] = (
    options_are_plain_data,
    scores_are_finite,
    inputs_are_unchanged,
    own_membership_is_not_used,
    targets_are_independent,
    order_does_not_matter,
    blocks_do_not_matter,
    memory_is_bounded,
    detects_planted_leakage,
    detects_nothing_without_leakage,
)
"""What every attack guarantees; each rule raises an AssertionError where an attack breaks it."""
