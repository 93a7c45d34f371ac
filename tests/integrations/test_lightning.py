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


@pytest.fixture
def lit() -> Any:
    """The module of tests/integrations/noise_module.py; importing it takes seconds, so no other test does."""
    pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")
    from tests.integrations import noise_module

    return noise_module


def test_the_monitor_changes_no_weight_and_sees_every_epoch(lit: Any) -> None:
    watch, at_the_end = lightning.monitor_callback(), lightning.monitor_callback(every=3)
    with_monitor, without = lit.trained(callbacks=[watch, at_the_end]), lit.trained()
    weights = with_monitor.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in without.state_dict().items())
    assert (watch.monitor.epochs, at_the_end.monitor.epochs) == (3, 1)
    assert np.isfinite(watch.monitor.exposure()).all() and watch.monitor.n_records == lit.N
    x, y = lit.rows().tensors
    last = cross_entropy(with_monitor.eval()(x), y, reduction="none").detach().sqrt().numpy()
    np.testing.assert_allclose(at_the_end.monitor.exposure(), last / last.mean(), rtol=1e-4)


def test_only_rank_zero_watches(lit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lit.pl.Trainer, "is_global_zero", property(lambda self: False))
    watch = lightning.monitor_callback(losses=lambda *_: pytest.fail("another rank took the pass"))
    lit.trained(callbacks=[watch])
    with pytest.raises(InputError, match="no epoch was watched yet"):
        _ = watch.monitor


def test_a_strategy_that_splits_the_model_is_refused(lit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lit.pl.Trainer, "world_size", property(lambda self: 2))
    watch, trainer = lightning.monitor_callback(), lit.make_trainer()
    trainer.strategy.__class__ = type("FSDPStrategy", (type(trainer.strategy),), {})
    with pytest.raises(InputError, match="strategy=FSDPStrategy: rank zero does not hold the whole model"):
        watch.on_train_start(trainer, lit.Noise())


def test_what_is_wrong_with_a_batch_is_known_before_an_epoch(lit: Any) -> None:
    steps: list[int] = []

    class Counting(lit.Noise):
        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            steps.append(number)
            return super().training_step(batch[:2], number)

    three = TensorDataset(*lit.rows().tensors, torch.zeros(lit.N))
    trainer = lit.make_trainer(callbacks=[lightning.monitor_callback()])
    with pytest.raises(InputError, match="give losses=, a function of"):
        trainer.fit(Counting(), DataLoader(three))
    assert steps == []


def test_a_module_is_audited_and_the_audit_resumes(lit: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"models": 8, "attacks": ["loss", "eb_lira"], "fpr": [0.1], "device": "cpu"}
    data, out, long = lit.rows(), tmp_path / "run", lit.make_long_trainer
    verdict = lightning.audit(lit.Noise, long, data, 24, out=out, **settings)
    auc = verdict.results.headline.auc
    assert auc.low is not None and auc.low > 0.6  # random labels can only be memorized
    assert verdict.results.population.recipe["train"].endswith(f"training_function({lit.__name__}:Noise)")
    assert run_command("verify", out).exit_code == 0

    def fails() -> Any:
        raise AssertionError("trained again")

    with pytest.raises(InputError, match="code"):  # other code is not taken for the same
        lightning.audit(lit.Noise, fails, data, 24, out=out, **settings)
    again = lightning.audit(lit.Noise, long, lit.rows(), 24, out=out, **settings)
    assert again.results == verdict.results


def test_the_seed_decides_the_model(lit: Any) -> None:
    train, records = lightning.training_function(lit.Noise, lit.make_trainer), lightning.records(lit.rows())
    outputs = [train(records, np.arange(24), seed)(records.features) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_integers_reach_the_module_as_integers(lit: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randint(0, 50, (lit.N, 3), generator=generator), torch.arange(lit.N) % 2)
    train = lightning.training_function(lit.Words, lit.make_trainer, 8, data)
    records = lightning.records(data)
    assert train(records, np.arange(24), 1)(records.features).shape == (lit.N, 2)


def test_a_config_file_names_a_training_function(lit: Any, tmp_path: Path) -> None:
    (tmp_path / "lit_training.py").write_text(
        "from leakscope.integrations.lightning import training_function\n"
        f"from {lit.__name__} import Noise, make_trainer\n"
        "train = training_function(Noise, make_trainer, batch_size=24)\n"
    )
    (tmp_path / "audit.toml").write_text(
        '[data]\ndataset = "gaussian"\noptions = {n_samples = 60, n_features = 8, n_classes = 2}\n'
        '[model]\ntrain = "lit_training:train"\n[population]\nmodels = 4\n[attacks]\nnames = ["loss"]\n'
    )
    done = run_command("audit", tmp_path / "audit.toml", "--out", tmp_path / "run")
    assert "4 models were each trained on a random half of 60 records" in done.out, done
