"""The contract of an attack, and every check around it.

An attack scores each (target model, record) by how much the record looks like a member; higher always
means "member". In a population every model is the target in turn, and the others are its reference models.

An attack whose scores of a record depend on that record alone writes `score`, a function of one block of
records. If it also needs figures of all records, such as a pooled variance, it computes them in
`statistics`, which runs first. An attack that works target by target overrides `run`. Signals and scores
may be memory maps larger than memory, so no attack allocates an array of all models and all records; one
that must hold the signals in memory says so by `in_memory`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from leakscope.array_types import AnyArray, FloatArray, IntArray
from leakscope.attacks.blocks import Block, Blocks
from leakscope.design import unit_sizes, unit_sums
from leakscope.disk.scratch import IN_MEMORY, Scratch, evict_pages, over_blocks
from leakscope.errors import InputError
from leakscope.options import accepted_values, label_of
from leakscope.signals.registry import (
    QUERY_LOG_ODDS,
    REGRESSION,
    TASKS,
    Task,
    names_of,
    task_of,
)
from leakscope.types import Design, Scores, Signals

References = Literal["none", "out", "both"]
Audit = Literal["population", "alone", "references", "out_references"]
Combination = Literal["sum", "mean"]

_LARGEST_SCORE = 1e100  # infinite scores of both signs in one unit would have no sum
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Attack:
    """A membership inference attack.

    A subclass with options is a frozen dataclass: options are its fields, data come in the call. Everything
    the rest of the package needs to know about an attack is declared on its class.

    Attributes:
        name: short and unique.
        needs: the signals it reads: names of shipped signals, or "package.module:function".
        needs_in_regression: the signals it reads from regression models; None: those of `needs`.
        is_binary: the score takes two values only, so a ROC curve has a single operating point.
        in_memory: the attack holds the signals of all models and records in memory.
        orders_records: the attack splits records by their position, so another order of the records gives
            other scores.
        default_for: the audits that run it by default: "population"; "alone", saved predictions of one
            model; "references" and "out_references", saved predictions of a model and of reference models.
        source: the publication, as "Author et al. YEAR".
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    needs_in_regression: ClassVar[tuple[str, ...] | None] = None
    is_binary: ClassVar[bool] = False
    in_memory: ClassVar[bool] = False
    orders_records: ClassVar[bool] = False
    default_for: ClassVar[tuple[Audit, ...]] = ()
    source: ClassVar[str] = ""

    def __post_init__(self) -> None:
        _check_class(type(self))
        for option, accepted in accepted_values(type(self)).items():
            value = getattr(self, option)
            try:
                object.__setattr__(self, option, accepted.convert(value))
            except ValueError as error:
                raise InputError(f"attack={self.name!r}: {option}={value!r}: {error}") from error

    @property
    def references(self) -> References:
        """The reference models it needs: "none", "out" (trained without the record) or "both" (with and
        without it). A subclass sets it as a plain attribute, or as a property if it depends on options."""
        return "none"

    @property
    def is_log_ratio(self) -> bool:
        """Whether the score is a log likelihood ratio, so that above 0 means "member"."""
        return False

    @property
    def combines_by(self) -> Combination:
        """How the scores of a unit's records become the score of the unit.

        Log likelihood ratios add up: their sum is the unit's own ratio where outputs on its records are
        independent. Other scores have no zero point, and a sum would measure the size of the unit.
        """
        return "sum" if self.is_log_ratio else "mean"

    @property
    def reads_checkpoints(self) -> bool:
        """Whether it reads all checkpoints, not the last alone: it then needs a bank with several."""
        return False

    def reads(self, task: Task) -> tuple[str, ...]:
        """The signals it reads from models of this task; empty: it cannot attack them."""
        needs = self.needs if task != REGRESSION else (self.needs_in_regression or self.needs)
        shipped = {name for any_task in TASKS for name in names_of(any_task)}
        foreign = shipped - set(names_of(task))
        return () if foreign.intersection(needs) else needs

    def reads_from(self, signals: Signals) -> tuple[str, ...]:
        """The signals it reads from the models that these belong to."""
        return self.reads(task_of(signals.labels, signals.arrays))

    @property
    def leaves_pairs_out(self) -> bool:
        """Whether, in a balanced design, a partner is left out with the target (`attacks/blocks.py`)."""
        return True

    @property
    def label(self) -> str:
        """The name, with the options that differ from their defaults: "lira(online=false)"."""
        return label_of(self.name, self)

    def __call__(
        self,
        signals: Signals,
        design: Design,
        targets: IntArray | None = None,
        scratch: Scratch = IN_MEMORY,
    ) -> Scores:
        """Scores every record for each target model; where units have several records, every unit.

        Args:
            signals: the models' outputs, as signals.
            design: who was in which training set.
            targets: indices of the models to attack; None: every model in turn.
            scratch: where large scores are stored.

        Returns:
            Scores with values float64 (targets, records), or (targets, units): finite or infinite, never NaN.
        """
        targets = np.arange(design.n_models) if targets is None else np.asarray(targets, dtype=np.int64)
        needs = self.reads_from(signals)
        if not needs:
            raise InputError(f"attack={self.label!r} reads {', '.join(self.needs)}, which these models lack")
        _check_stored(self, needs, signals)
        check_checkpoints([self], len(signals.epochs), "this bank has one; train a bank with several")
        for name in needs:
            if signals.last(name).shape[:2] != design.in_mask.shape:
                raise InputError(
                    f"{self.name}: signal {name!r} is {signals.last(name).shape[:2]} "
                    f"but the design is {design.in_mask.shape}; both must be (models, records)"
                )
        _check_references(self, design, targets)
        scores = self._scores_of_records(signals, design, targets, scratch)
        return Scores(self.label, targets, self._of_units(scores, design, scratch))

    def _of_units(self, scores: FloatArray, design: Design, scratch: Scratch) -> FloatArray:
        """The scores of each unit; those of the records where every record is a unit."""
        if design.units is None:
            return scores
        sizes = unit_sizes(design.units)
        combined = scratch.empty((len(scores), len(sizes)))
        for own, row in zip(combined, scores, strict=True):
            own[:] = unit_sums(np.clip(row, -_LARGEST_SCORE, _LARGEST_SCORE), design.units)
            if self.combines_by == "mean":
                own /= sizes
            evict_pages(scores, combined)
        return combined

    def _scores_of_records(
        self, signals: Signals, design: Design, targets: IntArray, scratch: Scratch
    ) -> FloatArray:
        """float64 (targets, records), complete."""
        scores = scratch.empty((len(targets), design.n_records))
        if not isinstance(scores, np.memmap):  # for a memory map the extra pass over the disk costs too much
            scores.fill(np.nan)  # reveals scores that `run` leaves out
        self.run(signals, design, targets, scores)
        n_missing = sum(
            over_blocks(design.n_records, lambda records: int(np.isnan(scores[:, records]).sum()), scores)
        )
        if n_missing:
            raise InputError(f"{self.label}: {n_missing} scores are missing or NaN; score every record")
        return scores

    def run(self, signals: Signals, design: Design, targets: IntArray, scores: FloatArray) -> None:
        """Fills `scores`, float64 (targets, records), block by block."""
        needs = self.reads_from(signals)
        blocks = Blocks(signals, design, targets, needs, allows_pairs=self.leaves_pairs_out)
        blocks = replace(blocks, statistics=self.statistics(blocks))

        def fill(block: Block) -> None:
            values, here = np.asarray(self.score(block)), scores[:, block.records]
            if values.shape != here.shape:
                raise InputError(
                    f"{self.label}: `score` returned shape {values.shape}, expected (targets, records) "
                    f"{here.shape}"
                )
            here[...] = values

        blocks.map(fill, scores)

    def fitted(self, signals: Signals, design: Design, targets: IntArray) -> Attack:
        """The attack with what it learns from all models; also to be repeated with some of them left out."""
        return self

    def statistics(self, blocks: Blocks) -> Any:
        """Figures of all records that `score` needs; every block has them as `block.statistics`."""
        return None

    def score(self, block: Block) -> AnyArray:
        """Scores of one block of records; (targets, records of the block).

        A target's own row of `block.in_mask` must not affect the target's scores.
        """
        raise NotImplementedError


def _check_class(cls: type[Attack]) -> None:
    """Raises InputError when a class of attacks does not declare what it has to."""
    name, needs = getattr(cls, "name", None), getattr(cls, "needs", None)
    own_annotations = [str(hint) for hint in inspect.get_annotations(cls).values()]
    problems = {
        "set `name`: lower-case letters, digits and underscores": not isinstance(name, str)
        or not _NAME.fullmatch(name),
        "set `needs`: a tuple of signals": not isinstance(needs, tuple) or not needs,
        "write `score` or `run`": cls.score is Attack.score and cls.run is Attack.run,
        "put @dataclass(frozen=True) above the class: it has options": "__dataclass_fields__" not in vars(cls)
        and any("ClassVar" not in hint for hint in own_annotations),
        "set traits such as `name` without a type: with one they are options": any(
            hasattr(Attack, field.name) or field.name in Attack.__annotations__ for field in fields(cls)
        ),
    }
    wrong = [problem for problem, is_present in problems.items() if is_present]
    if wrong:
        raise InputError(f"attack class {cls.__name__}: {'; '.join(wrong)}")


def _check_stored(attack: Attack, needs: tuple[str, ...], signals: Signals) -> None:
    """Raises InputError where an attack reads several queries, and the bank has one per record."""
    if QUERY_LOG_ODDS in needs and QUERY_LOG_ODDS not in signals.arrays:
        raise InputError(
            f"attack={attack.label!r} reads several queries per record, and this bank stores one; train a "
            "bank with, for example, queries=4, or leave the option out"
        )


def check_checkpoints(attacks: Iterable[Attack], n_checkpoints: int, otherwise: str) -> None:
    """Raises InputError where an attack reads all checkpoints, and there is one.

    Args:
        attacks: those that are asked for.
        n_checkpoints: number of checkpoints that the bank has, or will have.
        otherwise: who has one checkpoint, and what to do where several can be had.
    """
    refused = [attack.label for attack in attacks if attack.reads_checkpoints]
    if refused and n_checkpoints < 2:
        raise InputError(
            f"attacks={refused}: checkpoints=all would do nothing: {otherwise}, or leave the option out"
        )


def _check_references(attack: Attack, design: Design, targets: IntArray) -> None:
    """Raises InputError where a target has none of the reference models that the attack compares it with."""
    if attack.references == "none":
        return
    if design.n_models < 2:
        raise InputError(
            f"attack={attack.label!r} needs reference models, and there is no other model; add some, or "
            "choose loss or population, which need none"
        )
    if attack.references == "both" and not have_in_references(design, targets):
        remedy = f"{attack.name}(online=false)" if hasattr(attack, "online") else "eb_lira(online=false)"
        raise InputError(
            f"attack={attack.label!r} needs reference models that were trained with some of the records, and "
            f"none was; choose {remedy}, which needs none"
        )


def have_in_references(design: Design, targets: IntArray) -> bool:
    """Whether, for each target, another model was trained with some of the records."""
    has_members = [bool(design.in_mask[model].any()) for model in range(design.n_models)]
    return all(sum(has_members) > has_members[int(target)] for target in targets)


def cross_fit_folds(n_models: int, targets: IntArray, most_folds: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(Rows of `targets`, models to learn from) per fold, for attacks that learn from the population.

    A target's own membership must not affect its scores, and learning anew for every target is slow. So
    models are split into folds, and the targets of a fold are scored by what the models outside it teach.
    Folds follow from a model's index, so a target's scores do not depend on the other targets.
    """
    fold_of_model = np.arange(n_models) % min(n_models, most_folds)
    for fold in np.unique(fold_of_model[targets]):
        yield np.flatnonzero(fold_of_model[targets] == fold), np.flatnonzero(fold_of_model != fold)
