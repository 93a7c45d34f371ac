"""`leakscope plan CONFIG.toml`: time, memory, disk and resolution of an audit, before anybody pays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli import prediction_options as options
from leakscope.cli.audit import configured
from leakscope.cli.output import (
    AsJson,
    ClaimText,
    DataDir,
    Queries,
    Quiet,
    Unit,
    claimed,
    console,
    print_json,
    print_lines,
)
from leakscope.report.phrases import counted

if TYPE_CHECKING:
    from leakscope.audits.planning.plan import Cost, Plan
    from leakscope.audits.planning.trial import Seconds


def plan(
    config: Annotated[
        Path | None, typer.Argument(help="Config file (TOML) of the audit; `leakscope init` writes one.")
    ] = None,
    predictions: options.Predictions = None,
    label: options.Label = None,
    id_column: options.Id = None,
    member: options.Member = None,
    prob: options.Prob = None,
    logit: options.Logit = None,
    prediction: options.Prediction = None,
    classes: options.Classes = None,
    model_column: options.ModelColumn = None,
    target: options.Target = None,
    models: Annotated[int | None, typer.Option(help="Number of models (default: from the config).")] = None,
    unit: Unit = None,
    queries: Queries = None,
    claim: ClaimText = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Estimate what an audit costs and what it can resolve. Trains for a few seconds and writes nothing."""
    from leakscope.audits.planning.plan import plan_audit
    from leakscope.bank.run_folder import to_jsonable

    given = {"models": models, "unit": unit, "queries": queries, "claim": claimed(claim)}
    columns = options.prediction_columns(
        label=label, id=id_column, member=member, prob=prob, logit=logit, prediction=prediction,
        classes=classes, model_column=model_column, target=target,
    )  # fmt: skip
    planned = plan_audit(*configured(config, predictions, data_dir, given, columns))
    if as_json:
        print_json(to_jsonable(planned))
    elif not quiet:
        _show(planned)


def _show(planned: Plan) -> None:
    from rich.table import Column, Table

    from leakscope.evaluate.nouns import Noun

    table = Table("what", Column("estimate", justify="right"), Column("how", overflow="fold"), title="Plan")
    for row in (*(() if planned.cost is None else _cost_rows(planned.cost)), *_resolution_rows(planned)):
        table.add_row(*map(Noun.of_unit(planned.unit).say, row))
    screen = console()
    print_lines(screen, planned.columns)
    say = Noun.of_unit(planned.unit).say
    for part in ("", *map(say, summary(planned)), "", table):
        screen.print(part)
    if not planned.undecidable:
        print_lines(screen, ["", "Limits to begin with (docs/rating.md):", "", planned.suggested.toml, ""])
    for line in _footnotes(planned):
        screen.print(line, style="dim")


def summary(planned: Plan) -> list[str]:
    """The plan in sentences: what it costs, what it can and cannot resolve."""
    population, resolution, several = planned.population, planned.resolution, _has_several_targets(planned)
    whose = "Each target has at least" if several else "The target has"
    mean = f" from one target, and to about ± {resolution.auc_all_targets:.3f} as a mean over all targets"
    lines = [
        *_cost_summary(planned),
        *([f"UNRELIABLE: {resolution.unreliable}."] if resolution.unreliable else []),
        f"{whose} {population.nonmembers:,} non-members: the smallest measurable false positive rate (FPR) "
        f"is {_percent(resolution.lowest_fpr)}.",
        f"An area under the ROC curve (AUC) near 0.6 will be known to ± {resolution.auc_one_target:.3f}"
        f"{mean if several else ''}.",
    ]
    if resolution.record_advantage is not None:
        lines.append(
            f"The advantage on a single record will be known to ± {resolution.record_advantage:.2f}."
        )
    if planned.exposed is not None and planned.exposed.reason is not None:
        lines.append(f"Exposed records: {planned.exposed.reason}.")
    lines += [f"The gate cannot pass {limit}." for limit in planned.undecidable]
    lines += _claim_lines(planned)
    unresolved = [rate for rate in resolution.rates if rate.reason]
    if unresolved:
        lowest = min(unresolved, key=lambda rate: rate.fpr)
        in_all = f" per model, about {2 * lowest.needed_nonmembers:,} records in all" if several else ""
        needed = f"{lowest.needed_nonmembers:,} non-members{in_all}"
        lines.append(f"To resolve {_percent(lowest.fpr)}, you need {needed}.")
    return lines


def _has_several_targets(planned: Plan) -> bool:
    """Whether a population is planned; a given model or saved predictions have one target."""
    return planned.resolution.record_advantage is not None


def _claim_lines(planned: Plan) -> list[str]:
    """What the audit can say about a claim, and how long a sharper test takes."""
    claim = planned.claim
    if claim is None:
        return []
    if claim.seconds is None:
        return list(claim.sentences)
    return [*claim.sentences, f"Training that many models takes about {_duration(claim.seconds)}."]


def _cost_summary(planned: Plan) -> list[str]:
    if planned.cost is None:
        return ["Nothing is trained: the audit takes seconds, or minutes for millions of records."]
    population, cost = planned.population, planned.cost
    seconds = cost.time.total
    trained = f"{population.models:,} models on random halves of {population.records:,} records"
    if not _has_several_targets(planned):
        models = counted(population.models - 1, "reference model")
        trained = f"{models}, trained on random parts of {population.records:,} records,"
    return [
        f"{trained} will take about {_duration(seconds.expected)} ({_range(seconds)}), "
        f"{_size(cost.memory.peak)} of memory and {_size(cost.disk.peak)} of disk."
    ]


def _cost_rows(cost: Cost) -> Iterator[tuple[str, str, str]]:
    training, seconds, memory, disk = cost.training, cost.time, cost.memory, cost.disk
    parameters = f", {training.parameters:,} parameters each" if training.parameters else ""
    yield "trainer", training.trainer, f"on {training.device}{parameters}"
    yield "blocks", f"{training.blocks:,}", f"of up to {training.block_size:,} models"
    yield "training", _duration(seconds.training.expected), f"{_range(seconds.training)}; {seconds.how}"
    yield (
        "evaluation",
        _duration(seconds.judging.expected),
        f"{_range(seconds.judging)}; timed on random outputs",
    )
    parts = {part: part for part in ("records", "parameters", "workspace", "signals")}
    parts["judging"] = "evaluation"
    of_parts = (f"{name} {_size(getattr(memory, part))}" for part, name in parts.items())
    yield "memory", _size(memory.peak), ", ".join(of_parts)
    files = ", ".join(f"{name} {_size(n_bytes)}" for name, n_bytes in disk.signals.items())
    yield "disk", _size(disk.peak), f"{_size(disk.finished)} when finished: {files}"


def _resolution_rows(planned: Plan) -> Iterator[tuple[str, str, str]]:
    from leakscope.audits.planning.plan import SUPPOSED_AUC

    resolved, several = planned.resolution, _has_several_targets(planned)

    def how(of_one: str, of_all: str) -> str:
        return f"{of_one}; {of_all}" if several else of_one

    pooled = f"{_percent(resolved.lowest_fpr_pooled)} with all targets pooled"
    yield "lowest FPR", _percent(resolved.lowest_fpr), how("one target", pooled)
    spread = f"about ± {resolved.auc_all_targets:.3f} over all targets"
    yield "AUC", f"± {resolved.auc_one_target:.3f}", how(f"one target, AUC {SUPPOSED_AUC:g}", spread)
    for rate in resolved.rates:
        width = how(
            f"one target, TPR {rate.supposed:.0%}", f"about ± {rate.all_targets:.1%} over all targets"
        )
        shown = ("not resolvable", rate.reason) if rate.reason else (f"± {rate.one_target:.1%}", width)
        yield f"TPR at {100 * rate.fpr:.6g}% FPR", *shown
    if resolved.record_advantage is not None:
        half = planned.population.models // 2
        rates = f"{half:,} models with the record and {half:,} without, rates 1/2"
        yield "a record's advantage", f"± {resolved.record_advantage:.2f}", rates
    if planned.exposed is not None:
        fewest, reason = planned.exposed
        shown = (
            ("any number", "a single one can be detected") if reason is None else ("not resolvable", reason)
        )
        if reason and fewest <= planned.population.records:
            shown = (f"{fewest:,} or more", reason)
        yield "exposed records", *shown


def _footnotes(planned: Plan) -> list[str]:
    lines = ["Figures after ± are half the widths of 95% intervals. The formulas are in docs/plan.md."]
    if planned.cost is None:
        return lines
    timed = (
        f"Times were measured for {planned.cost.time.trial_seconds:.1f} s on this machine under its present "
        "load. Starting Python and writing the report take additional time."
    )
    note = planned.cost.training.note
    return [*([f"The models are {note}."] if note else []), timed, *lines]


def _range(seconds: Seconds) -> str:
    return f"{_duration(seconds.low)} to {_duration(seconds.high)}"


def _duration(seconds: float) -> str:
    """Two digits and a unit a person thinks in."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{0 if seconds >= 10 * size else 1}f} {unit}"
    return f"{seconds:.{0 if seconds >= 10 else 1}f} s"


def _size(n_bytes: float) -> str:
    """Bytes in powers of 1000."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.{0 if n_bytes >= 10 * size else 1}f} {unit}"
    return f"{n_bytes:.0f} bytes"


def _percent(rate: float) -> str:
    return f"{100 * rate:.2g}%"
