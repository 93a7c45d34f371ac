"""MLflow: figures as metrics, settings as params, words as tags, the report as an artifact."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from leakscope.integrations.tracked_run import PREFIX, TrackedRun
from leakscope.integrations.tracking import refuse_another_audit, refuse_into

_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "15"}
"""MLflow's own defaults wait for minutes for a server that does not answer."""
_MOST_PARAMS = 100
"""Params and tags that MLflow takes in one request."""


def log(run: TrackedRun, into: str | None) -> str:
    """Logs to the active run, or to a new one; returns its id."""
    import mlflow

    with _patience():
        active = mlflow.active_run()
        if active is not None:
            refuse_into(into, "MLflow")
            _log_to(active.info.run_id, run)
            return str(active.info.run_id)
        experiment = None if into is None else _experiment(into)
        # In place of the path of the script, which MLflow would store.
        tags = {"mlflow.source.name": "leakscope", "mlflow.note.content": run.tags[f"{PREFIX}verdict"]}
        with mlflow.start_run(experiment_id=experiment, run_name=run.name, tags=tags) as started:
            _log_to(started.info.run_id, run)
        return str(started.info.run_id)


@contextmanager
def _patience() -> Iterator[None]:
    """Waits for seconds, unless the user has chosen otherwise."""
    ours = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _experiment(name: str) -> str:
    """The id of an experiment, which is created where it is missing; the current one stays current."""
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name(name)
    return str(experiment.experiment_id if experiment else client.create_experiment(name))


def _log_to(run_id: str, run: TrackedRun) -> None:
    import mlflow
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient()
    refuse_another_audit(client.get_run(run_id).data.params, run.params, "MLflow")
    now = mlflow.utils.time.get_current_time_millis()
    metrics = [Metric(name, value, now, 0) for name, value in run.metrics.items()]
    client.log_batch(run_id, metrics, tags=[RunTag(*tag) for tag in run.tags.items()])
    params = [Param(*param) for param in run.params.items()]
    for at in range(0, len(params), _MOST_PARAMS):
        client.log_batch(run_id, params=params[at : at + _MOST_PARAMS])
    for path in run.files:
        client.log_artifact(run_id, str(path), "leakscope")
