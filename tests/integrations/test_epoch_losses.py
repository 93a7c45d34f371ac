"""The pass that a monitor takes after an epoch: every record once, in order, and nothing is disturbed."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from leakscope.errors import InputError
from leakscope.integrations import hugging_face, lightning, tracking
from leakscope.integrations.dataset_records import Input, Layout, fixed_draws
from leakscope.integrations.epoch_losses import EpochLosses, undisturbed
from leakscope.integrations.lightning import pair_losses, records

N = 23


def rows() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(N, 4, generator=generator), torch.arange(N) % 3)


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    return torch.nn.Sequential(*layers)


def as_it_is(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize("loader", ["in order", "shuffled", "drop last", "with replacement", "batch sampler"])
def test_every_record_has_its_own_loss_whatever_the_sampler_does(loader: str) -> None:
    data, model, watch = rows(), net(), EpochLosses(pair_losses, every=1)
    sampler = WeightedRandomSampler([1.0] * N, N, replacement=True)
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), 5, drop_last=True)
    made: DataLoader[Any] = {
        "in order": lambda: DataLoader(data, batch_size=5),
        "shuffled": lambda: DataLoader(data, batch_size=5, shuffle=True),
        "drop last": lambda: DataLoader(data, batch_size=5, shuffle=True, drop_last=True),
        "with replacement": lambda: DataLoader(data, batch_size=5, sampler=sampler),
        "batch sampler": lambda: DataLoader(data, batch_sampler=batches),
    }[loader]()
    watch.try_first_batch(model, made, as_it_is)
    watch.watch(model, made, as_it_is)
    x, y = data.tensors
    with torch.no_grad():
        expected = cross_entropy(model.eval()(x), y, reduction="none").sqrt().double()
    np.testing.assert_allclose(watch.monitor.exposure(), expected / expected.mean(), rtol=1e-5)


def test_generators_modes_and_statistics_are_what_they_were() -> None:
    model, watch = net(), EpochLosses(pair_losses, every=1)
    model[2].eval()  # frozen by the user
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    statistics = {name: value.clone() for name, value in model.state_dict().items()}
    watch.watch(model, DataLoader(Drawing(), batch_size=5, shuffle=True), as_it_is)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]
    assert [module.training for module in model.modules()] == [True, True, True, False, True]
    assert all(torch.equal(value, statistics[name]) for name, value in model.state_dict().items())


class Drawing(Dataset[Any]):
    """A dataset with augmentation, which draws from every generator."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return torch.randn(4) + random.random() + np.random.rand(), at % 3


def test_what_is_raised_in_the_pass_leaves_the_modes_alone() -> None:
    model = net()
    with pytest.raises(ZeroDivisionError), undisturbed(model):
        raise ZeroDivisionError
    assert model.training


def test_records_with_infinite_losses_are_left_out_with_a_warning() -> None:
    data, watch = rows(), EpochLosses(pair_losses, every=1)
    data.tensors[0][3] = torch.inf
    with pytest.warns(UserWarning, match="the losses of 1 of 23 records are NaN or infinite"):
        watch.watch(net(), DataLoader(data, batch_size=5), as_it_is)
    assert np.flatnonzero(np.isnan(watch.monitor.exposure())).tolist() == [3]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize(
    ("loader", "message"),
    [(DataLoader(Stream()), "the training set is Stream"), ([1, 2], "the training set is list")],
)
def test_a_training_set_without_a_length_is_refused_before_the_first_epoch(loader: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EpochLosses(pair_losses, every=1).try_first_batch(net(), loader, as_it_is)


@pytest.mark.parametrize("wrong", [lambda m, b: torch.tensor([1.0]), lambda m, b: torch.zeros(5, 2)])
def test_losses_must_be_one_per_record(wrong: Any) -> None:
    with pytest.raises(InputError, match="give one number per record"):
        EpochLosses(wrong, every=1).try_first_batch(net(), DataLoader(rows(), batch_size=5), as_it_is)


def test_a_batch_that_is_no_pair_asks_for_a_function() -> None:
    three = TensorDataset(*rows().tensors, torch.zeros(N))
    with pytest.raises(InputError, match="a batch is list, not a pair"):
        EpochLosses(pair_losses, every=1).try_first_batch(net(), DataLoader(three), as_it_is)


def test_a_monitor_that_saw_nothing_says_so() -> None:
    with pytest.raises(InputError, match="no epoch was watched yet"):
        _ = EpochLosses(pair_losses, every=1).monitor
    with pytest.raises(InputError, match="every=0"):
        EpochLosses(pair_losses, every=0)


def test_features_are_the_inputs_exactly() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = {
        "input_ids": torch.randint(0, 250_000, (7, 5), generator=generator),
        "attention_mask": torch.ones(7, 5, dtype=torch.bool),
        "pixel_values": torch.randn(7, 3, 2, 2, generator=generator),
        "scale": torch.randn(7, generator=generator),
    }
    layout = Layout.of(inputs)
    features = layout.features(inputs)
    assert features.dtype == np.float32 and features.shape == (7, 5 + 5 + 12 + 1)
    for name, values in layout.tensors(features).items():
        assert values.dtype == inputs[name].dtype and torch.equal(values, inputs[name])


def test_integers_that_float32_would_round_are_refused() -> None:
    layout = Layout((Input("ids", (), "int64"),))
    with pytest.raises(InputError, match="ids has integers above 16,777,216"):
        layout.features({"ids": torch.tensor([2**24 + 1])})


def test_a_dataset_with_augmentation_has_the_same_records_every_time() -> None:
    state = torch.get_rng_state()
    assert records(Drawing()).digest == records(Drawing()).digest
    assert torch.equal(state, torch.get_rng_state())
    with fixed_draws():
        first = torch.randn(1)
    with fixed_draws():
        assert torch.equal(first, torch.randn(1))


def test_a_trainer_that_is_not_installed_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0].endswith("lightning")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(lightning, "find_spec", lambda _: None)
    monkeypatch.setattr(tracking, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'leakscope\[lightning\]'"):
        lightning.monitor_callback()
    with pytest.raises(InputError, match=r"pip install 'leakscope\[transformers\]'"):
        hugging_face.monitor_callback()
