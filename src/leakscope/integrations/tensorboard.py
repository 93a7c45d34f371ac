"""TensorBoard: figures as scalars, settings and words as tables; it has no place for files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leakscope.integrations.tracked_run import PREFIX, TrackedRun


def log(run: TrackedRun, into: str | None) -> str:
    """Writes an event file to the folder `into`, by default `tensorboard/NAME`; returns the folder."""
    from torch.utils.tensorboard import SummaryWriter

    folder = Path(into) if into is not None else Path("tensorboard") / run.name
    with SummaryWriter(str(folder)) as writer:
        for name, value in run.metrics.items():
            writer.add_scalar(name, value, 0)
        for name, table in (("verdict", run.tags), ("settings", run.params)):
            writer.add_text(f"{PREFIX}{name}", _markdown(table), 0)
    return str(folder)


def _markdown(table: Mapping[str, str]) -> str:
    rows = [f"| {name.removeprefix(PREFIX)} | {_cell(value)} |" for name, value in table.items()]
    return "\n".join(["| | |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())
