"""Each tracker, the real library: what was sent is read back from its own store."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leakscope
from leakscope.errors import InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.tracked_run import tracked_run
from leakscope.integrations.tracking import TrackingError
from tests.cli.command import run_command

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def installed(package: str) -> Any:
    return pytest.importorskip(package, reason=f"{package} is not installed")


def content(folder: Path) -> bytes:
    """Everything that files under a folder hold."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture
def store(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow with a store of files in an empty folder."""
    mlflow = installed("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{elsewhere}/mlruns")
    yield mlflow
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(None)


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TestMlflow:
    def test_a_run_of_its_own(self, store: Any, population: Verdict, elsewhere: Path) -> None:
        run_id = leakscope.log_run(population, to="mlflow", into="privacy")
        client, sent = store.MlflowClient(), tracked_run(population)
        logged = client.get_run(run_id)
        assert logged.data.metrics == pytest.approx(dict(sent.metrics))
        assert logged.data.params == dict(sent.params)
        assert sent.tags.items() <= logged.data.tags.items()
        assert logged.info.status == "FINISHED" and logged.info.run_name == "my run"
        assert client.get_experiment(logged.info.experiment_id).name == "privacy"
        assert store.active_run() is None
        stored = [Path(file.path).name for file in client.list_artifacts(run_id, "leakscope")]
        assert stored == ["report.html", "results.json"]
        page = next(elsewhere.rglob("report.html"))
        assert page.read_bytes() == (population.folder / "report.html").read_bytes()
        assert logged.data.tags["mlflow.source.name"] == "leakscope"  # not the path of a script
        assert not any(str(Path.home()) in value for value in logged.data.tags.values())

    def test_the_active_run_receives_it_twice_and_stays_active(self, store: Any, population: Verdict) -> None:
        with store.start_run() as active:
            store.log_params({"seed": 5, "lr": 0.1})
            store.log_metric("auc", 0.99)
            for _ in range(2):
                assert leakscope.log_run(population, to="mlflow") == active.info.run_id
            assert store.active_run().info.run_id == active.info.run_id
            with pytest.raises(InputError, match="would do nothing"):
                leakscope.log_run(population, to="mlflow", into="elsewhere")
        data = store.MlflowClient().get_run(active.info.run_id).data
        assert data.params["seed"] == "5" and data.metrics["auc"] == 0.99
        assert data.metrics["leakscope/auc"] == population.results.headline.auc.value

    def test_another_audit_in_the_same_run_is_refused_before_anything_is_logged(
        self, store: Any, population: Verdict, given_model: Verdict
    ) -> None:
        with store.start_run() as active:
            leakscope.log_run(population, to="mlflow")
            before = store.MlflowClient().get_run(active.info.run_id).data.to_dictionary()
            with pytest.raises(InputError, match="the active MLflow run holds another audit"):
                leakscope.log_run(given_model, to="mlflow")
        assert store.MlflowClient().get_run(active.info.run_id).data.to_dictionary() == before

    def test_a_redacted_run_leaves_no_private_file(
        self, store: Any, redacted: Verdict, elsewhere: Path
    ) -> None:
        leakscope.log_run(redacted, to="mlflow")
        files = {path.name for path in elsewhere.rglob("*") if path.is_file() and "artifacts" in path.parts}
        assert files == {"report-redacted.html"}

    def test_a_server_that_is_not_there_or_does_not_answer(
        self, store: Any, population: Verdict, closed_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.set_tracking_uri(f"http://127.0.0.1:{closed_port}")
        start = time.monotonic()
        done = run_command("track", population.folder, "mlflow")
        assert done.exit_code == 3 and done.err.count("leakscope: mlflow did not take the run (API") == 1
        assert time.monotonic() - start < 60  # MLflow's own patience is several minutes

        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")  # the user's own setting counts
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            store.set_tracking_uri(f"http://127.0.0.1:{silent.getsockname()[1]}")
            with pytest.raises(TrackingError):
                leakscope.log_run(population, to="mlflow")


class TestWandb:
    @pytest.fixture
    def offline(self, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        wandb = installed("wandb")
        monkeypatch.setenv("WANDB_MODE", "offline")
        wandb.teardown()  # it reads its environment once
        yield wandb
        wandb.teardown()

    def transactions(self, wandb: Any, folder: Path) -> bytes:
        """The transaction log that `wandb sync` uploads; complete once W&B has ended."""
        wandb.teardown()
        (path,) = folder.glob("wandb/offline-run-*/*.wandb")
        return path.read_bytes()

    def logged(self, log: bytes) -> list[Any]:
        """The records of a transaction log: in blocks of 32 KiB, in pieces with a head of 7 bytes."""
        from wandb.proto import wandb_internal_pb2

        records, begun, at = [], b"", 7
        while at + 7 <= len(log):
            if 32768 - at % 32768 < 7:
                at += 32768 - at % 32768
                continue
            length, kind = int.from_bytes(log[at + 4 : at + 6], "little"), log[at + 6]
            begun += log[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):  # whole, or the last piece
                records.append(wandb_internal_pb2.Record.FromString(begun))
                begun = b""
        return records

    def test_offline(self, offline: Any, population: Verdict, elsewhere: Path) -> None:
        run_id = leakscope.log_run(population, to="wandb", into="privacy")
        assert offline.run is None
        records, sent = self.logged(self.transactions(offline, elsewhere)), tracked_run(population)
        (started,) = [r.run for r in records if r.WhichOneof("record_type") == "run"]
        assert (started.run_id, started.project, started.display_name) == (run_id, "privacy", "my run")
        updates = [u for r in records for u in r.summary.update]
        summary = {u.key or u.nested_key[0]: json.loads(u.value_json) for u in updates}
        assert {name: summary[name] for name in sent.metrics} == pytest.approx(dict(sent.metrics))
        assert {name: summary[name] for name in sent.tags} == dict(sent.tags)
        configs = [
            u for r in records for u in [*r.config.update, *r.run.config.update] if u.key == "leakscope"
        ]
        assert json.loads(configs[-1].value_json)["recipe/epochs"] == "4"
        stored = [entry.path for r in records for entry in r.request.log_artifact.artifact.manifest.contents]
        stored += [entry.path for r in records for entry in r.artifact.manifest.contents]
        assert sorted(set(stored)) == ["report.html", "results.json"]
        exits = [r.exit.exit_code for r in records if r.WhichOneof("record_type") == "exit"]
        assert exits == [0]

    def test_a_redacted_run_sends_no_private_file(
        self, offline: Any, redacted: Verdict, elsewhere: Path
    ) -> None:
        leakscope.log_run(redacted, to="wandb")
        sent = self.transactions(offline, elsewhere)
        assert b"report-redacted.html" in sent
        assert b"results.json" not in sent and b"/report.html" not in sent

    def test_the_active_run_receives_it(
        self, offline: Any, population: Verdict, given_model: Verdict
    ) -> None:
        with offline.init(settings=offline.Settings(silent=True)) as active:
            active.log({"loss": 1.0})
            step = active.step
            for _ in range(2):
                assert leakscope.log_run(population, to="wandb") == active.id
            assert active.step == step
            with pytest.raises(InputError, match="the active Weights & Biases run holds another audit"):
                leakscope.log_run(given_model, to="wandb")
            assert active.summary["leakscope/auc"] == population.results.headline.auc.value
            assert active.config["leakscope"]["seed"] == "0"
            assert offline.run is active
            with pytest.raises(InputError, match="would do nothing"):
                leakscope.log_run(population, to="wandb", into="elsewhere")

    def test_without_a_key_or_a_server(
        self, offline: Any, population: Verdict, closed_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed_port}")
        monkeypatch.setenv("WANDB_INIT_TIMEOUT", "2")
        offline.teardown()
        with pytest.raises(TrackingError, match="wandb did not take the run"):
            leakscope.log_run(population, to="wandb")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        offline.teardown()
        with pytest.raises(TrackingError, match="wandb did not take the run"):
            leakscope.log_run(population, to="wandb")
        assert offline.run is None


class TestTensorboard:
    def events(self, folder: Path) -> Any:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        return EventAccumulator(str(folder)).Reload()

    def test_scalars_and_tables(self, population: Verdict, redacted: Verdict, elsewhere: Path) -> None:
        installed("tensorboard")
        assert leakscope.log_run(population, to="tensorboard") == "tensorboard/my run"
        leakscope.log_run(population, to="tensorboard")  # again
        read, sent = self.events(elsewhere / "tensorboard" / "my run"), tracked_run(population)
        scalars = {name: read.Scalars(name)[-1].value for name in read.Tags()["scalars"]}
        assert scalars == pytest.approx(dict(sent.metrics), rel=1e-6)
        (table, *_) = read.Tensors("leakscope/verdict/text_summary")
        text = table.tensor_proto.string_val[0].decode()
        assert f"| rating | {population.rating} |" in text
        leakscope.log_run(redacted, to="tensorboard", into="other")
        assert b"p17" not in content(elsewhere / "other")
