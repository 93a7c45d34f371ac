"""The script that trains networks in RMIA's setting, at a tiny size on the CPU."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from leakscope.data.cifar10 import BATCHES, ROW_BYTES, ROWS_A_BATCH
from leakscope.design import make_design
from leakscope.recipe import Recipe
from leakscope.train.loop import inputs_from, train_block

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "rmia_setting.py"
TINY = ["--device", "cpu", "--designed", "4", "--block", "2", "--epochs", "1", "--records", "40",
        "--depth", "10", "--widen", "1"]  # fmt: skip


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("rmia_setting", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["rmia_setting"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["rmia_setting"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for batch in BATCHES:
        rows = rng.integers(0, 256, (40, ROW_BYTES), dtype=np.uint8)
        rows[:, 0] %= 10
        with (folder / f"{batch}.bin").open("wb") as file:
            file.write(rows.tobytes())
            file.truncate(ROWS_A_BATCH * ROW_BYTES)  # the other rows are zeros, and nobody reads them
    return folder


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["rmia_setting.py", *map(str, arguments)])
    script.main()


def bank_of(script, monkeypatch, out, bank):
    run(script, monkeypatch, "--out", out, "--bank", bank)
    return {file.stem: np.load(file) for file in bank.glob("*.npy")}


@pytest.mark.slow
def test_models_trained_in_two_runs_are_those_of_one_and_of_the_library(script, data, tmp_path, monkeypatch):
    for out, parts in {"parts": ("0:1", "0:1", "0:3"), "whole": ("0:3",)}.items():
        for models in parts:
            run(script, monkeypatch, "--data", data, "--out", tmp_path / out, "--models", models, *TINY)
    parts, whole = (
        bank_of(script, monkeypatch, tmp_path / n, tmp_path / f"{n}-bank") for n in ("parts", "whole")
    )
    assert parts.keys() == whole.keys()
    for name in parts:
        assert np.allclose(parts[name].astype(float), whole[name].astype(float), atol=0.02), name
    assert whole["log_odds_queries"].shape == (3, 18, 40) and whole["models"].tolist() == [0, 1, 2]
    recipe = script.recipe_of(_options(script, monkeypatch))
    records, _ = script.read_records(_options(script, monkeypatch, data))
    design = make_design("balanced", 4, 40, 0)
    inputs = inputs_from(records, torch.device("cpu"))
    block = train_block(inputs, design, recipe, np.arange(3), 0, ("log_odds",), "side_by_side")
    assert np.allclose(whole["log_odds_running"][:, 0], block.signals["log_odds"][:, -1], atol=0.02)
    assert (whole["design"] == design.in_mask[:3]).all()


def _options(script, monkeypatch, data=None):
    seen = []
    monkeypatch.setattr(script, "train_missing", seen.append)
    run(script, monkeypatch, "--data", data or SCRIPT.parent, *TINY)
    return seen[0]


def test_another_setting_is_refused(script, tmp_path, monkeypatch):
    settings = {"schedule": "annealed"}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SystemExit, match="other settings"):
        run(script, monkeypatch, "--data", tmp_path, "--out", tmp_path, *TINY)


def test_the_rate_starts_at_zero_and_ends_at_a_fifth_of_the_peak(script):
    recipe = script.WarmCosine(optimizer="sgd", lr=0.1, momentum=0.9, epochs=100)
    factors = [recipe.lr_factor(epoch) for epoch in (0, 0.5, 1, 50, 100)]
    assert factors == pytest.approx([0, 0.5, np.cos(7 / 1600 * np.pi), 0.7730, 0.1951], abs=2e-4)
    assert replace(recipe, epochs=10).lr_factor(10) == pytest.approx(0.1951, abs=2e-4)
    assert Recipe(optimizer="sgd", schedule="cosine", epochs=100).lr_factor(100) == pytest.approx(0)


def test_statistics_of_the_batch_are_used_and_not_learned(script):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = 3 + 2 * torch.randn(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    before = net[1].running_mean.clone(), net[1].running_var.clone()
    by_batch, running = (script.logits_of(net, x, script.QUERIES[0], r) for r in (False, True))
    assert by_batch.mean(dim=0).abs().max() < 1e-5 < running.mean(dim=0).abs().max()
    assert torch.equal(net[1].running_mean, before[0]) and torch.equal(net[1].running_var, before[1])
    assert not net[1].training and net[1].momentum == 0.1


def test_the_first_two_queries_are_the_image_and_its_mirror_image(script):
    x = torch.arange(18.0).reshape(1, 2, 3, 3)
    assert len(set(script.QUERIES)) == 18
    assert torch.equal(script.seen(x, script.QUERIES[0]), x)
    assert torch.equal(script.seen(x, script.QUERIES[1]), x.flip(-1))
    moved = script.seen(x, script.Query(False, 1, -1))[0, 0]
    assert moved.tolist() == [[0, 0, 0], [1, 2, 0], [4, 5, 0]]
