"""`leakscope plan CONFIG.toml`: time, memory, disk and resolution of an audit, before anybody pays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakscope.cli.output import AsJson, DataDir, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from leakscope.audits.config import AuditConfig
    from leakscope.audits.planning import Plan, Seconds
    from leakscope.types import Records


def plan(
    config: Annotated[Path, typer.Argument(help="A TOML file for `leakscope audit`; see examples/.")],
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say what an audit will cost and what it can resolve; trains for a few seconds, writes nothing."""
    from dataclasses import asdict

    from leakscope.audits.config import read_config
    from leakscope.bank.run_folder import to_jsonable
    from leakscope.cli.output import print_json

    settings = read_config(config)
    planned = _planned(settings, settings.records(data_dir, base=config.parent))
    if as_json:
        print_json(to_jsonable(asdict(planned)))
    elif not quiet:
        _show(planned)


def _planned(settings: AuditConfig, records: Records) -> Plan:
    from leakscope.audits.planning import plan_audit

    return plan_audit(
        records,
        settings.recipe(),
        models=settings.population.models,
        seed=settings.population.seed,
        design=settings.population.design,
        attacks=settings.attacks.names,
        fpr_budgets=settings.attacks.fpr,
        signals=settings.population.signals,
        gate=settings.gate.gate() if settings.gate else None,
        device=settings.population.device,
    )


def _show(planned: Plan) -> None:
    from leakscope.cli.output import console

    screen = console()
    screen.print()
    for line in words(planned):
        screen.print(line)
    screen.print()
    screen.print(_table(planned))
    for line in _footnotes(planned):
        screen.print(line, style="dim")


def words(planned: Plan) -> list[str]:
    """The plan in plain sentences: what it takes, what it can and cannot say."""
    population, seconds, resolution = planned.population, planned.time.total, planned.resolution
    lines = [
        f"{population.models:,} models on random halves of {population.records:,} records will take about "
        f"{_duration(seconds.expected)} ({_duration(seconds.low)} to {_duration(seconds.high)}), "
        f"{_size(planned.memory.peak)} of memory and {_size(planned.disk.peak)} of disk.",
        f"Each model has at least {population.nonmembers:,} non-members: its own rates cannot say anything "
        f"below an FPR of {_percent(resolution.lowest_fpr)}.",
        f"An AUC near 0.6 will be known to ± {resolution.auc_one_target:.3f} from one target and "
        f"± {resolution.auc_all_targets:.3f} as a mean over all; one record's advantage to "
        f"± {resolution.record_advantage:.2f}.",
    ]
    unresolved = [rate for rate in resolution.rates if rate.reason]
    if unresolved:
        lowest = min(unresolved, key=lambda rate: rate.fpr)
        lines.append(
            f"To resolve {_percent(lowest.fpr)} you need {lowest.needed_nonmembers:,} non-members a model, "
            f"so about {2 * lowest.needed_nonmembers:,} records."
        )
    return lines


def _table(planned: Plan) -> Table:
    from rich.table import Table

    table = Table(title="Plan")
    table.add_column("what")
    table.add_column("estimate", justify="right")
    table.add_column("how", overflow="fold")
    for row in _rows(planned):
        table.add_row(*row)
    return table


def _rows(planned: Plan) -> Iterator[tuple[str, str, str]]:
    training, seconds, memory, disk = planned.training, planned.time, planned.memory, planned.disk
    parameters = f", {training.parameters:,} parameters each" if training.parameters else ""
    yield "trainer", training.trainer, f"on {training.device}{parameters}"
    yield "blocks", f"{training.blocks:,}", f"of up to {training.block_size:,} models"
    yield "training", _duration(seconds.training.expected), f"{_range(seconds.training)}; {seconds.how}"
    yield "judging", _duration(seconds.judging.expected), f"{_range(seconds.judging)}; random answers judged"
    parts = ("records", "parameters", "workspace", "signals", "judging")
    yield "memory", _size(memory.peak), ", ".join(f"{p} {_size(getattr(memory, p))}" for p in parts)
    files = ", ".join(f"{name} {_size(n_bytes)}" for name, n_bytes in disk.signals.items())
    yield "disk", _size(disk.peak), f"{_size(disk.finished)} when finished: {files}"
    yield from _resolution_rows(planned)


def _resolution_rows(planned: Plan) -> Iterator[tuple[str, str, str]]:
    from leakscope.audits.planning import SUPPOSED_AUC, SUPPOSED_TPR

    found = planned.resolution
    pooled = f"one target; {_percent(found.lowest_fpr_pooled)} with all targets pooled"
    yield "lowest FPR", _percent(found.lowest_fpr), pooled
    spread = f"one target, AUC {SUPPOSED_AUC:g}; ± {found.auc_all_targets:.4f} for the mean over targets"
    yield "AUC", f"± {found.auc_one_target:.3f}", spread
    for rate in found.rates:
        width = f"one target, TPR {SUPPOSED_TPR:.0%}; ± {rate.all_targets:.2%} over all targets"
        shown = ("not resolvable", rate.reason) if rate.reason else (f"± {rate.one_target:.1%}", width)
        yield f"TPR at {rate.fpr:.6g} FPR", *shown
    half = planned.population.models // 2
    yield "a record's advantage", f"± {found.record_advantage:.2f}", f"{half:,} models a side, rates 1/2"


def _footnotes(planned: Plan) -> list[str]:
    lines = [
        f"Times were measured for {planned.time.trial_seconds:.1f} s on this machine as busy as it is now; "
        "starting Python and drawing the report come on top.",
        "± are half widths of 95% intervals. The formulas are in docs/plan.md.",
    ]
    return lines if planned.training.note is None else [f"The models are {planned.training.note}.", *lines]


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
