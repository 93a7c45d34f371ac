"""Weights & Biases: figures and words in the summary, settings in the config, the report as an artifact."""

from __future__ import annotations

import os
import re
from typing import Any

from leakscope.integrations.tracked_run import PREFIX, TrackedRun
from leakscope.integrations.tracking import refuse_another_audit, refuse_into

_PROJECT = "leakscope"
_SETTINGS = {
    "init_timeout": 30,
    "finish_timeout": 120,
    "silent": True,
    # What W&B collects by itself: paths and arguments of the program, the code, the packages, the screen.
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "save_code": False,
    "disable_git": True,
    "console": "off",
}


def log(run: TrackedRun, into: str | None) -> str:
    """Logs to the active run, or to a new one; returns its id."""
    import wandb

    if wandb.run is not None:
        refuse_into(into, "Weights & Biases")
        _log_to(wandb.run, run)
        return str(wandb.run.id)
    project = into or os.environ.get("WANDB_PROJECT", _PROJECT)
    with wandb.init(project=project, name=run.name, settings=_settings(wandb.Settings)) as started:
        _log_to(started, run)
        return str(started.id)


def _settings(settings_class: Any) -> Any:
    """Settings of a run of our own, as far as this version of W&B has them and the user chose none."""
    known = {name: value for name, value in _SETTINGS.items() if name in settings_class.model_fields}
    chosen = {name for name in known if f"WANDB_{name.upper()}" in os.environ}
    return settings_class(**{name: value for name, value in known.items() if name not in chosen})


def _log_to(started: Any, run: TrackedRun) -> None:
    import wandb

    settings = {name.removeprefix(PREFIX): value for name, value in run.params.items()}
    refuse_another_audit(dict(started.config.get("leakscope", {})), settings, "Weights & Biases")
    started.config.update({"leakscope": settings}, allow_val_change=True)
    # The summary, not the history: the audit is no step of a training that may be under way.
    started.summary.update({**run.metrics, **run.tags})
    name = re.sub(r"[^\w.-]", "_", f"leakscope-{run.name}", flags=re.ASCII)[:128]
    artifact = wandb.Artifact(name, type="leakscope-audit")
    for path in run.files:
        artifact.add_file(str(path), policy="mutable" if started.offline else "immutable")
    started.log_artifact(artifact)
