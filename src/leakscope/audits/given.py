"""A given, trained model: reference models trained on random parts of the same records judge it.

The references are trained in `references/` of the run folder by any recipe: ours, an estimator or a user's
training function. The target's own outputs come from its weights, its file or its `predict` function. It is
row 0 of the run's bank, and the references are the other rows.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.attacks.base import Attack, check_checkpoints
from leakscope.attacks.registry import default_attacks
from leakscope.audits.population import (
    column_facts,
    column_lines,
    evaluation_config,
    output_facts,
    query_facts,
    stored_signals,
    training_request,
)
from leakscope.audits.rows import models_per_block, signals_of, write_rows
from leakscope.audits.settings import DEFAULT_FPR_BUDGETS, JUDGING, STORED, TRAINING, UNITS, ResolvedSettings
from leakscope.audits.source import Evidence, PreparedAudit, Progress
from leakscope.audits.units import check_members, first_of_units, unit_facts, units_of
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity
from leakscope.data.column_file import refuse_absurd_text
from leakscope.data.text_records import DOCUMENT
from leakscope.design import make_design, single_part
from leakscope.disk.scratch import Scratch
from leakscope.errors import InputError
from leakscope.evaluate.config import MEMBERS, MEMBERS_SHA256, Source
from leakscope.evaluate.record_metadata import begin_description, describe_records
from leakscope.frames.frame import Frame
from leakscope.models.fine_tuned import FineTuned
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.signals.asked import Asked
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import Task, of_outputs, task_of_records
from leakscope.types import Design, Records, digest_arrays
from leakscope.user_code import user_errors

if TYPE_CHECKING:
    from leakscope.engine.request import TrainingRequest
    from leakscope.models.given import GivenModel

REFERENCES = "references"
_STEPS_OF_SHARE = 64
_HEADERS = ("id", "ids", "member", "members")
"""What the first line of a list of members may say; anything else there may be a mistyped id."""


@dataclass(frozen=True, eq=False)
class GivenTarget:
    """A trained model, its members, and how to train reference models.

    Attributes:
        records: members and non-members, as the model expects them.
        model: `leakscope.NetWeights`, `leakscope.FittedEstimator` or `leakscope.PredictFunction`; of text
            `leakscope.FineTuned`.
        is_member: bool (records,), true for the records the model was trained on.
        recipe: how the references are trained; ideally as the model was.
        outputs: what queries of the model and of the references return.
    """

    records: Records
    model: GivenModel | FineTuned
    is_member: BoolArray
    recipe: AnyRecipe
    outputs: OutputFilter = NO_FILTER

    uses: ClassVar[frozenset[str]] = JUDGING | STORED | TRAINING | UNITS
    default_fpr_budgets: ClassVar[tuple[float, ...]] = DEFAULT_FPR_BUDGETS

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_member", _as_bool(self.is_member))

    @property
    def task(self) -> Task:
        """Of the records."""
        return task_of_records(self.records)

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks that references allow."""
        return default_attacks("references", self.task)

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks the members, the references' request and the model, which is queried about every record."""
        self._check()
        check_checkpoints(settings.attacks, 1, "a given model has one checkpoint; audit a population instead")
        records = self.records
        names = stored_signals(settings, self.task)
        units = units_of(records, settings.unit)
        check_members(self.is_member, units, settings.unit)
        design = _of_references(self.is_member[first_of_units(records, settings.unit)], settings, units)
        begun = begin_description(records, self.is_member, units)
        request, engine = training_request(
            records, self.recipe, replace(settings, signals=names), design, self.outputs
        )
        with user_errors(f"the given model ({type(self.model).__name__})"):
            answers = self._answers(settings, names, request)
        source = Source("given model", self._facts(settings, request), settings.config_text)
        config = evaluation_config(records.name, settings, source, (0,))

        def collect(folder: Path, progress: Progress) -> Evidence:
            from leakscope.engine.local import complete_bank

            references = complete_bank(folder / REFERENCES, request, engine, progress)
            bank = self._write_bank(folder, references, answers)
            return Evidence(bank, describe_records(records, bank.design(), begun), config, records)

        columns = column_lines(records, self.recipe, settings.unit)
        is_member = self.is_member[first_of_units(records, settings.unit)][None]
        return PreparedAudit(config, is_member, 1 + settings.models, collect, request, columns)

    def _facts(self, settings: ResolvedSettings, request: TrainingRequest) -> dict[str, str]:
        """What the report says about the model and its references."""
        n_trained = float(request.design.in_mask.sum(axis=1).mean())
        return {
            **self.model.describe(),
            MEMBERS_SHA256: digest_arrays(self.records.ids[self.is_member]),
            MEMBERS: f"{int(self.is_member.sum()):,} of {len(self.records):,} records",
            "references": _references(settings.models, n_trained),
            **base_facts(request),
            "design": settings.design,
            **unit_facts(settings.unit, request.design),
            **output_facts(self.outputs),
            **column_facts(self.records, self.recipe, settings.unit),
            **query_facts(settings),
        }

    def _answers(
        self, settings: ResolvedSettings, names: tuple[str, ...], request: TrainingRequest
    ) -> _Answers:
        """What queries of the model return."""
        if self.records.is_language:
            return self._of_documents(request)
        if request.asked == Asked() and len(of_outputs(names)) == len(names):
            return _Answers(self._logits(self.records.features if self._table is None else self._table), {})
        from leakscope.train.black_box import Answering, queried_again
        from leakscope.train.queries import Drawn, random_inputs, returned

        table = self._table

        def predict(inputs: Any) -> AnyArray:
            return self._logits(inputs if table is None else replace(table, data=inputs))

        logits = self._logits(self.records.features if table is None else table)
        of_random = logits[:0]
        if self.outputs.random_values:
            of_random = self._logits(random_inputs(self.records.features, settings.seed))
        drawn = Drawn(settings.seed, settings.models, len(logits))  # behind the references
        asked = request.asked
        again = queried_again(predict, self.records, names, asked, Answering(of_random, drawn, table))
        shown = returned(logits, of_random, self.outputs, drawn)
        return _Answers(shown, {name: values[None, None] for name, values in again.items()})

    def _of_documents(self, request: TrainingRequest) -> _Answers:
        """Signals of a language model: its outputs on all tokens would take too much memory."""
        from leakscope.train.adapters.given import signals_of_given

        assert isinstance(self.model, FineTuned) and isinstance(self.recipe, AdapterRecipe), "checked before"
        names = request.signal_names
        return _Answers(None, signals_of_given(self.model, self.records, self.is_member, self.recipe, names))

    @property
    def _table(self) -> Frame | None:
        """The table that the model gets as it is; None: it gets features."""
        from leakscope.models.given import FittedEstimator

        return self.records.frame if isinstance(self.model, FittedEstimator) else None

    def _logits(self, inputs: Any) -> AnyArray:
        if isinstance(self.model, FineTuned):
            from leakscope.train.adapters.given import logits_of_given

            return logits_of_given(self.model, replace(self.records, features=inputs), self.recipe)
        return self.model.outputs(inputs, self.records.class_names).logits

    def _check(self) -> None:
        n_records = len(self.records)
        if not isinstance(self.model, FineTuned) and not hasattr(self.model, "outputs"):
            raise InputError(
                f"model is {type(self.model).__name__}: give leakscope.NetWeights, "
                "leakscope.FittedEstimator, leakscope.PredictFunction or leakscope.FineTuned"
            )
        if self.records.is_language and not isinstance(self.model, FineTuned):
            raise InputError(
                f"{self.records.name} is text: give the folder of a fine-tuned language model, folder = ... "
                "under [target] (leakscope.FineTuned in Python)"
            )
        if isinstance(self.model, FineTuned) and not self.records.is_text:
            raise InputError(
                f"folder={str(self.model.folder)!r} is a language model, and {self.records.name} is not text"
            )
        if isinstance(self.recipe, Recipe) and self.recipe.evaluated_epochs != (self.recipe.epochs,):
            raise InputError(
                f"training.checkpoints={list(self.recipe.checkpoints)} would do nothing: a given model is "
                "compared with references at the end of their training; leave checkpoints out"
            )
        if self.is_member.shape != (n_records,) or self.is_member.all() or not self.is_member.any():
            raise InputError(
                f"is_member must be bool ({n_records},) and name both members and non-members; "
                f"{int(self.is_member.sum())} of {len(self.is_member)} are members"
            )

    def _write_bank(self, folder: Path, references: Bank, answers: _Answers) -> Bank:
        """The target and the references as one bank."""
        stored, labels, scratch = references.signals().arrays, self.records.labels, Scratch(folder)
        of_references = references.design()
        in_mask = np.concatenate([self.is_member[None], of_references.in_mask])
        design = Design(in_mask, units=of_references.units)
        identity = replace(
            references.identity,
            design=DesignIdentity.of(design),
            recipe={
                "target": answers.digest,
                "references": references.identity.recipe,
                "evaluated_epochs": [1],
            },
            block_size=models_per_block(len(labels)),
        )

        def row(model: int) -> dict[str, AnyArray]:
            if model == 0:
                return answers.all_signals(labels, identity.signals, scratch)
            return {name: np.asarray(values[model - 1, -1])[None, None] for name, values in stored.items()}

        note = "a given model, and references trained for it"
        return write_rows(folder, identity, design, labels, row, note)


def _of_references(is_member: BoolArray, settings: ResolvedSettings, units: IntArray | None) -> Design:
    """What the references are trained on: as many records as the target, or with units as many of these.

    Args:
        is_member: bool (units,), the members of the target.
        settings: with the number of references and their design.
        units: int64 (records,), the unit of each record; None: every record is one.
    """
    n_records = len(is_member) if units is None else len(units)
    share = shareable_share(int(is_member.sum()), len(is_member))
    if settings.models == 1:
        return single_part(n_records, settings.seed, share, units)
    return make_design(settings.design, settings.models, n_records, settings.seed, share, units)


def shareable_share(n_members: int, n_records: int) -> float:
    """The share of members, to the step of a balanced design of 64 models; finer where one side is small.

    A page says which records each reference was trained on, or figures from which a reader who trains them
    again can tell. Of references trained on exactly as many records, that would be the number of members.
    """
    n_fewer = min(n_members, n_records - n_members)
    steps = math.ldexp(_STEPS_OF_SHARE, math.floor(math.log2(n_records / 2 / n_fewer)))
    return round(n_members / n_records * steps) / steps


def _references(n_models: int, n_trained: float) -> str:
    """What the report says about the reference models."""
    trained = f"trained on about {n_trained:,.0f} of the same records"
    return f"1 model, {trained}" if n_models == 1 else f"{n_models} models, each {trained}"


def base_facts(request: TrainingRequest) -> dict[str, str]:
    """What the report says about the base of language models."""
    if not isinstance(request.recipe, AdapterRecipe):
        return {}
    return {
        "base": Path(request.recipe.base).name,
        "base sha256": str(request.identity.recipe["base_sha256"]),
    }


class _Answers(NamedTuple):
    """What queries of the given model return.

    Attributes:
        logits: its outputs on every record, float32 (records, outputs); None for a language model.
        signals: signals of a language model, or of queries about changed records; name -> (1, 1, records,
            ...).
    """

    logits: AnyArray | None
    signals: dict[str, AnyArray]

    @property
    def digest(self) -> str:
        """Sha256 of the outputs."""
        if self.logits is not None:
            return digest_arrays(self.logits)
        return digest_arrays(*(self.signals[name] for name in sorted(self.signals)))

    def all_signals(self, labels: AnyArray, names: tuple[str, ...], scratch: Scratch) -> dict[str, AnyArray]:
        """Those of the outputs as well; name -> (1, 1, records, ...)."""
        if self.logits is None:
            return self.signals
        return signals_of(self.logits, labels, of_outputs(names), scratch) | self.signals


def _as_bool(is_member: Any) -> BoolArray:
    """Membership as bool; 0 and 1 mean what they say, and anything else is refused."""
    values = np.asarray(is_member)
    if values.dtype != np.bool_ and not (values.dtype.kind in "iuf" and np.isin(values, (0, 1)).all()):
        raise InputError(
            f"is_member holds {values.dtype} {values.shape}; give one bool per record, true for members"
        )
    return values.astype(np.bool_)


def read_members(path: Path, records: Records, id_column: str | None = None) -> BoolArray:
    """Who is a member; bool (records,).

    Args:
        path: the ids are in the first column; a repeated id counts once. The id of a document stands for all
            of its windows.
        records: the records that the ids refer to.
        id_column: its name in the first line, as "id" and "member" there, is a header.

    Raises:
        InputError: the file cannot be read, or an id is not among the records.
    """
    try:
        refuse_absurd_text(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            listed = [row[0].strip() for row in csv.reader(file) if row and row[0].strip()]
    except (OSError, UnicodeDecodeError, csv.Error, InputError) as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error
        raise InputError(f"members={str(path)!r} cannot be read ({why}); write one id per line") from error
    of_documents = records.groups.get(DOCUMENT, records.ids)  # windows of a document are all members
    known = {*records.ids.tolist(), *of_documents.tolist()}
    if listed and listed[0] not in known and listed[0].lower() in {*_HEADERS, str(id_column).lower()}:
        listed = listed[1:]
    if not listed:
        raise InputError(f"members={str(path)!r} lists no ids; write one id of a member per line")
    if unknown := [name for name in dict.fromkeys(listed) if name not in known]:
        raise InputError(f"members={str(path)!r}: {_unknown_ids(unknown, known, records, listed[0])}")
    is_member: BoolArray = np.isin(records.ids, listed) | np.isin(of_documents, listed)
    if is_member.all():
        raise InputError(
            f"members={str(path)!r} names every record as a member; list only those that the model was "
            "trained on"
        )
    return is_member


def _unknown_ids(unknown: Sequence[str], known: Collection[str], records: Records, first_line: str) -> str:
    """Which listed ids are none of the records, and the likely reason."""
    n_unknown = f"{len(unknown):,} ids are" if len(unknown) > 1 else "1 id is"
    first = f" (the first is {unknown[0]!r})" if len(unknown) > 1 else f" ({unknown[0]!r})"
    example = f"The records have ids such as {str(records.ids[0])!r}"
    are_cut = {name.lstrip("0") for name in unknown} & {name.lstrip("0") for name in known}
    hints = [f"{example}: were leading zeros lost?" if are_cut else f"{example}."]
    hints += ["If the first line is a header, call it 'id'"] if first_line in unknown else []
    return f"{n_unknown} not among the records{first}. {' '.join(hints)}".rstrip(".")
