"""What an audit can be about, and what each source hands to the evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from leakscope.array_types import BoolArray
from leakscope.attacks.base import Attack
from leakscope.audits.settings import ResolvedSettings
from leakscope.bank.bank import Bank
from leakscope.dp.coins import check_coins, check_references
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.signals.registry import Task
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.engine.request import TrainingRequest  # torch comes with it

Progress = Callable[[float], None]
"""Called with the models' worth of training that is done."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the evaluation needs.

    Attributes:
        bank: the models' outputs.
        metadata: what is known about the records.
        config: what is asked of the outputs.
        records: the records, to preview the most exposed; None where their features are unknown.
    """

    bank: Bank
    metadata: RecordMetadata
    config: EvaluationConfig
    records: Records | None = None


@dataclass(frozen=True)
class Sizes:
    """Models and records; members and non-members of the target that has fewest."""

    models: int
    records: int
    members: int
    nonmembers: int


@dataclass(frozen=True, eq=False)
class PreparedAudit:
    """A source with its settings, checked; nothing is written yet.

    Attributes:
        config: what will be asked of the outputs.
        is_member: bool (targets, records).
        n_models: number of models, the targets and their references.
        collect: trains, reads or merges what is missing in the run folder; resumes what was interrupted.
        request: the models to train; None where nothing is trained.
        columns: how the columns of a table were read, and likely mistakes in them, one line each.
    """

    config: EvaluationConfig
    is_member: BoolArray
    n_models: int
    collect: Callable[[Path, Progress], Evidence]
    request: TrainingRequest | None = None
    columns: Sequence[str] = ()

    @property
    def sizes(self) -> Sizes:
        """Number of models, records, members and non-members."""
        n_members, n_records = self.is_member.sum(axis=1), self.is_member.shape[1]
        return Sizes(self.n_models, n_records, int(n_members.min()), n_records - int(n_members.max()))


def check_claimed(config: EvaluationConfig, design: Design) -> None:
    """Refuses a claim about models that exist already, where a true claim could be refuted.

    Raises:
        InputError: memberships are no independent coins, or canaries were duplicated.
    """
    if config.targets is None:
        check_coins(design)
    else:
        (target,) = config.targets
        check_references(np.delete(design.in_mask, target, axis=0), design.in_mask[target])
    if "duplicated" in config.source.facts.get("canaries", ""):
        raise InputError(
            "claim: it is about one record, and the canaries of this run are duplicated; train models "
            "without them"
        )


def refuse_claim(config: EvaluationConfig) -> None:
    """Refuses a claim, which is about one record, where a unit may have several."""
    if config.unit is not None:
        raise InputError(
            f"claim: it is about one record, and memberships were drawn for units ({config.unit!r}); train "
            "models without unit"
        )


class Source(Protocol):
    """Something to audit: a population to train, a given model, saved predictions, runs to merge."""

    uses: ClassVar[frozenset[str]]
    """The settings that have an effect, see `AuditSettings`."""

    @property
    def task(self) -> Task:
        """What the models predict: classes or numbers."""

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks that run when none are given."""

    @property
    def default_fpr_budgets(self) -> tuple[float, ...]:
        """The false positive rates to report at when none are given."""

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks everything that can be checked before anything is written.

        Raises:
            InputError: whatever is wrong with the settings or the source.
        """
