"""Lightning, the real library: the callback changes nothing, and a module is audited end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from leakscope.errors import InputError
from leakscope.integrations import lightning
from tests.cli.command import run_command

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pl = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

N = 48


class Noise(pl.LightningModule):  # type: ignore[misc,name-defined]
    """Learns labels that nothing explains."""

    def __init__(self) -> None:
        super().__init__()
        layers = torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        self.net = torch.nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.03)


def make_trainer(epochs: int = 3, **options: Any) -> Any:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return pl.Trainer(max_epochs=epochs, accelerator="cpu", enable_model_summary=False, **quiet, **options)


def make_long_trainer() -> Any:
    return make_trainer(20)


def rows() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 2, (N,), generator=generator))


def trained(**options: Any) -> Noise:
    torch.manual_seed(1)
    module = Noise()
    loader = DataLoader(rows(), batch_size=10, shuffle=True, drop_last=True)
    make_trainer(accumulate_grad_batches=2, **options).fit(module, loader)
    return module


def test_the_monitor_changes_no_weight_and_sees_every_epoch() -> None:
    watch, at_the_end = lightning.monitor_callback(), lightning.monitor_callback(every=3)
    with_monitor, without = trained(callbacks=[watch, at_the_end]), trained()
    weights = with_monitor.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in without.state_dict().items())
    assert (watch.monitor.epochs, at_the_end.monitor.epochs) == (3, 1)
    assert np.isfinite(watch.monitor.exposure()).all() and watch.monitor.n_records == N
    x, y = rows().tensors
    last = cross_entropy(with_monitor.eval()(x), y, reduction="none").detach().sqrt().numpy()
    np.testing.assert_allclose(at_the_end.monitor.exposure(), last / last.mean(), rtol=1e-4)


def test_only_rank_zero_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Trainer, "is_global_zero", property(lambda self: False))
    watch = lightning.monitor_callback(losses=lambda *_: pytest.fail("another rank took the pass"))
    trained(callbacks=[watch])
    with pytest.raises(InputError, match="no epoch was watched yet"):
        _ = watch.monitor


def test_a_strategy_that_splits_the_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Trainer, "world_size", property(lambda self: 2))
    watch, trainer = lightning.monitor_callback(), make_trainer()
    trainer.strategy.__class__ = type("FSDPStrategy", (type(trainer.strategy),), {})
    with pytest.raises(InputError, match="strategy=FSDPStrategy: rank zero does not hold the whole model"):
        watch.on_train_start(trainer, Noise())


def test_what_is_wrong_with_a_batch_is_known_before_an_epoch() -> None:
    steps: list[int] = []

    class Counting(Noise):
        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            steps.append(number)
            return super().training_step(batch[:2], number)

    three = TensorDataset(*rows().tensors, torch.zeros(N))
    trainer = make_trainer(callbacks=[lightning.monitor_callback()])
    with pytest.raises(InputError, match="give losses=, a function of"):
        trainer.fit(Counting(), DataLoader(three))
    assert steps == []


def test_a_module_is_audited_and_the_audit_resumes(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"models": 8, "attacks": ["loss", "eb_lira"], "fpr": [0.1], "device": "cpu"}
    verdict = lightning.audit(Noise, make_long_trainer, rows(), 24, out=tmp_path / "run", **settings)
    auc = verdict.results.headline.auc
    assert auc.low is not None and auc.low > 0.6  # random labels can only be memorized
    assert verdict.results.accuracy is None or verdict.results.accuracy.members.value > 0.7
    assert verdict.results.population.recipe["train"].endswith(f"training_function({__name__}:Noise)")
    assert run_command("verify", tmp_path / "run").exit_code == 0

    def fails() -> Any:
        raise AssertionError("trained again")

    with pytest.raises(InputError, match="code"):  # other code is not taken for the same
        lightning.audit(Noise, fails, rows(), 24, out=tmp_path / "run", **settings)
    again = lightning.audit(Noise, make_long_trainer, rows(), 24, out=tmp_path / "run", **settings)
    assert again.results == verdict.results


def test_the_seed_decides_the_model() -> None:
    train, records = lightning.training_function(Noise, make_trainer, 8), lightning.records(rows())
    outputs = [train(records, np.arange(24), seed)(records.features) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


class Words(Noise):
    """Takes integers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.words(x).mean(dim=1))


def test_integers_reach_the_module_as_integers() -> None:
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randint(0, 50, (N, 3), generator=generator), torch.arange(N) % 2)
    train, records = lightning.training_function(Words, make_trainer, 8, data), lightning.records(data)
    assert train(records, np.arange(24), 1)(records.features).shape == (N, 2)
