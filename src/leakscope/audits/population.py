"""A population to train: many models of one recipe, each on a random half of the records."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from leakscope.attacks.base import Attack
from leakscope.attacks.registry import PER_RECORD, default_attacks
from leakscope.audits.settings import (
    DEFAULT_FPR_BUDGETS,
    JUDGING,
    PLANTED,
    STORED,
    TRAINING,
    ResolvedSettings,
)
from leakscope.audits.source import Evidence, PreparedAudit, Progress
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig, Source
from leakscope.evaluate.record_metadata import begin_description, describe_records
from leakscope.recipe import AnyRecipe, EstimatorRecipe, Recipe
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.signals.registry import CLASSIFICATION, Task, task_of
from leakscope.types import Design, Records
from leakscope.user_code import user_errors

if TYPE_CHECKING:
    from leakscope.engine.local import Engine
    from leakscope.engine.request import TrainingRequest


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

    uses: ClassVar[frozenset[str]] = JUDGING | STORED | TRAINING | PLANTED
    default_fpr_budgets: ClassVar[tuple[float, ...]] = DEFAULT_FPR_BUDGETS

    @property
    def task(self) -> Task:
        """Of the records."""
        return task_of(self.records.labels)

    @property
    def default_attacks(self) -> tuple[Attack, ...]:
        """The attacks of a population that the task allows."""
        return default_attacks("population", self.task)

    def prepare(self, settings: ResolvedSettings) -> PreparedAudit:
        """Checks records, recipe, design, signals and device."""
        canaries, records = settings.canaries, self.records
        self._check_claim(settings)
        facts = {
            "models": f"{settings.models}, each trained on a random half of the records",
            "design": settings.design,
            **output_facts(self.outputs),
            **column_facts(records, self.recipe),
            **query_facts(settings),
        }
        if canaries is not None:
            facts["canaries"] = canaries.describe(len(records))
            records = canaries.planted(records, settings.seed)
        design = make_design(settings.design, settings.models, len(records), settings.seed)
        begun = begin_description(records, design.in_mask[0])
        request, engine = training_request(records, self.recipe, settings, design, self.outputs)
        source = Source("population", facts, settings.config_text)
        config = evaluation_config(self.records.name, settings, source)

        def collect(folder: Path, progress: Progress) -> Evidence:
            from leakscope.audits.extension import trained_bank

            bank = trained_bank(folder, request, settings.design, engine, progress)
            return Evidence(bank, describe_records(records, bank.design(), begun), config, records)

        is_member = request.design.in_mask
        if records.is_canary is not None:
            is_member = is_member[:, ~records.is_canary]
        columns = column_lines(records, self.recipe)
        return PreparedAudit(config, is_member, settings.models, collect, request, columns)

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
        if self.records.copies is not None or (canaries is not None and canaries.kind == "duplicated"):
            raise InputError(
                "claim: it is about one record, and a duplicated canary counts as several; plant canaries of "
                "another kind"
            )


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
        settings.signals,
        settings.device,
        settings.reuse,
        outputs=outputs,
        queries=settings.queries,
    )
    engine = engine_named(settings.engine, settings.address)
    with user_errors(f"net={recipe.net!r}") if isinstance(recipe, Recipe) else nullcontext():
        check_request(request, engine.check_device)  # builds the network once
    return request, engine


def output_facts(outputs: OutputFilter) -> dict[str, str]:
    """What the report says about the answers of queries, where these are not the models' outputs."""
    return {} if outputs == NO_FILTER else {"outputs": str(outputs)}


def column_lines(records: Records, recipe: AnyRecipe) -> list[str]:
    """How the columns of a table were read, and likely mistakes in them; empty for other records."""
    if records.reading is None:
        return []
    frame = records.frame if isinstance(recipe, EstimatorRecipe) else None
    return records.reading.lines(encoded=frame is None or frame.is_encoded)


def column_facts(records: Records, recipe: AnyRecipe) -> dict[str, str]:
    """What the report says about the columns of a table."""
    lines = column_lines(records, recipe)
    facts = {"columns": "".join(lines[:1]), "columns to check": ". ".join(lines[1:])}
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
        **limits,
    )
