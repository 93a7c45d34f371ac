"""A population to train: many models of one recipe, each on a random half of the records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from leakscope.attacks.base import Attack, check_checkpoints
from leakscope.attacks.registry import PER_RECORD, default_attacks
from leakscope.audits.settings import (
    DEFAULT_FPR_BUDGETS,
    JUDGING,
    PLANTED,
    STORED,
    TRAINING,
    UNITS,
    ResolvedSettings,
)
from leakscope.audits.source import Evidence, PreparedAudit, Progress
from leakscope.audits.units import (
    canaries_apart,
    first_of_units,
    repeated_ids,
    unit_facts,
    units_of,
)
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig, Source
from leakscope.evaluate.nouns import Noun
from leakscope.evaluate.record_metadata import begin_description, describe_records
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import (
    BASE_SECRET_RANK,
    CLASSIFICATION,
    LANGUAGE,
    SECRET_RANK,
    TOKEN_LOG_PROBS,
    Task,
    default_signals,
    task_of_records,
)
from leakscope.types import Design, Records
from leakscope.user_code import user_errors

if TYPE_CHECKING:
    from leakscope.engine.local import Engine
    from leakscope.engine.request import TrainingRequest

_MOST_TOKEN_BYTES = 1 << 28
"""Log-probabilities of single tokens are stored by default up to this size."""


@dataclass(frozen=True, eq=False)
class TrainedPopulation:
    """Records, and the recipe of the models to train on random halves of them.

    Attributes:
        records: the records in question.
        recipe: how one model is trained.
        outputs: what queries return.
    """

    records: Records
    recipe: AnyRecipe
    outputs: OutputFilter = NO_FILTER

    uses: ClassVar[frozenset[str]] = JUDGING | STORED | TRAINING | UNITS | PLANTED
    default_fpr_budgets: ClassVar[tuple[float, ...]] = DEFAULT_FPR_BUDGETS

    @property
    def task(self) -> Task:
        """Of the records."""
        return task_of_records(self.records)

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks of a population that the task allows."""
        return default_attacks("population", self.task)

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks records, recipe, design, signals and device."""
        canaries, records = settings.canaries, self.records
        self._check_claim(settings)
        check_recipe_checkpoints(settings.attacks, self.recipe)
        if canaries is not None:
            records = canaries_apart(canaries.planted(records, settings.seed), settings.unit)
        units = units_of(records, settings.unit)
        design = make_design(settings.design, settings.models, len(records), settings.seed, units=units)
        begun = begin_description(records, design.in_mask[0], units)
        request, engine = training_request(records, self.recipe, settings, design, self.outputs)
        source = Source("population", self._facts(settings, request), settings.config_text)
        config = evaluation_config(self.records.name, settings, source)

        def collect(folder: Path, progress: Progress) -> Evidence:
            from leakscope.audits.extension import trained_bank

            bank = trained_bank(folder, request, settings.design, engine, progress)
            return Evidence(bank, describe_records(records, bank.design(), begun), config, records)

        is_member = request.design.of_units.in_mask
        if records.is_canary is not None:
            is_member = is_member[:, ~records.is_canary[first_of_units(records, settings.unit)]]
        columns = column_lines(records, self.recipe, settings.unit)
        return PreparedAudit(config, is_member, settings.models, collect, request, columns)

    def _facts(self, settings: ResolvedSettings, request: TrainingRequest) -> dict[str, str]:
        """What the report says about the models and their records."""
        whose, records = Noun.of_unit(settings.unit).many, request.records
        facts = {
            "models": f"{settings.models}, each trained on a random half of the {whose}",
            "design": settings.design,
            **unit_facts(settings.unit, request.design),
            **output_facts(self.outputs),
            **column_facts(records, self.recipe, settings.unit),
            **query_facts(settings),
        }
        canaries = settings.canaries
        return facts if canaries is None else facts | {"canaries": canaries.describe(len(records))}

    def _check_claim(self, settings: ResolvedSettings) -> None:
        """Refuses what would refute a training that keeps its promise."""
        if settings.claim is None:
            return
        if settings.design != "bernoulli":
            raise InputError(
                f"claim: design={settings.design!r} draws no independent coins; write "
                'design = "bernoulli", or leave it out'
            )
        canaries = settings.canaries
        if self.records.copies is not None or (canaries is not None and canaries.n_copies > 1):
            raise InputError(
                "claim: it is about one record, and a duplicated canary counts as several; plant canaries of "
                "another kind"
            )


def check_recipe_checkpoints(attacks: Sequence[Attack], recipe: AnyRecipe) -> None:
    """Raises InputError where an attack reads several checkpoints, and the recipe's models have one."""
    if isinstance(recipe, Recipe):
        why = f"the models have one checkpoint, epoch {recipe.evaluated_epochs[-1]} of {recipe.epochs}; name "
        check_checkpoints(attacks, len(recipe.evaluated_epochs), why + "several by training.checkpoints")
    else:
        check_checkpoints(attacks, 1, "only networks have several checkpoints; audit a network")


def training_request(
    records: Records,
    recipe: AnyRecipe,
    settings: ResolvedSettings,
    design: Design,
    outputs: OutputFilter = NO_FILTER,
) -> tuple[TrainingRequest, Engine]:
    """The models to train and the backend that trains them, both checked."""
    from leakscope.engine.local import engine_named  # torch comes with it
    from leakscope.engine.request import TrainingRequest, check_request

    request = TrainingRequest(
        records,
        design,
        recipe,
        settings.seed,
        signals_of_population(settings, records, len(recipe.evaluated_epochs)),
        settings.device,
        settings.reuse,
        outputs=outputs,
        queries=settings.queries,
    )
    engine = engine_named(settings.engine, settings.address)
    with user_errors(f"net={recipe.net!r}") if isinstance(recipe, Recipe) else nullcontext():
        check_request(request, engine.check_device)  # builds the network once
    return request, engine


def signals_of_population(
    settings: ResolvedSettings, records: Records, n_checkpoints: int
) -> tuple[str, ...]:
    """The signals to store: those that are asked for, and of documents also what reports show."""
    if not records.is_language:
        return settings.signals
    names = {*settings.signals, *default_signals(LANGUAGE)}
    if records.text is not None and records.text.secrets is not None:
        names |= {SECRET_RANK, BASE_SECRET_RANK}
    if 4 * settings.models * n_checkpoints * records.features.size <= _MOST_TOKEN_BYTES:
        names.add(TOKEN_LOG_PROBS)
    return tuple(sorted(names))


def output_facts(outputs: OutputFilter) -> dict[str, str]:
    """What the report says about the answers of queries, where these are not the models' outputs."""
    return {} if outputs == NO_FILTER else {"outputs": str(outputs)}


def column_lines(records: Records, recipe: AnyRecipe, unit: str | None) -> list[str]:
    """How columns or documents were read, and likely mistakes in them; empty for other records."""
    if records.text is not None and records.text.reading is not None:
        return records.text.reading.lines()
    if records.reading is None:
        return []
    frame = records.frame if isinstance(recipe, EstimatorRecipe) else None
    lines = records.reading.lines(encoded=frame is None or frame.is_encoded)
    return [*lines, *(f"Check: {warning}" for warning in repeated_ids(records, unit))]


def column_facts(records: Records, recipe: AnyRecipe, unit: str | None) -> dict[str, str]:
    """What the report says about how columns or documents were read."""
    lines, what = column_lines(records, recipe, unit), "documents" if records.is_text else "columns"
    facts = {what: "".join(lines[:1]), f"{what} to check": ". ".join(lines[1:])}
    return {name: text for name, text in facts.items() if text}


def query_facts(settings: ResolvedSettings) -> dict[str, str]:
    """What the report says about several queries per record."""
    return {} if settings.queries < 2 else {"queries": f"{settings.queries} per record"}


def stored_signals(settings: ResolvedSettings, task: Task) -> tuple[str, ...]:
    """The signals that a target and its references need: those of the attacks, and those that checks read."""
    of_checks = ("correct",) if task == CLASSIFICATION else ("loss",)
    return tuple(sorted({*settings.signals, *PER_RECORD.reads(task), *of_checks}))


def evaluation_config(
    name: str, settings: ResolvedSettings, source: Source, targets: tuple[int, ...] | None = None
) -> EvaluationConfig:
    """What is asked of the outputs, as results.json holds it."""
    gate = settings.gate
    limits = {} if gate is None else {"delta": gate.delta, "confidence": gate.confidence}
    return EvaluationConfig(
        name,
        settings.attack_specs,
        settings.fpr_budgets,
        targets,
        gate=gate,
        source=source,
        claim=settings.claim,
        unit=settings.unit,
        **limits,
    )
