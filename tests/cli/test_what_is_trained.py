"""`leakscope audit` says what it trains, before it does, where the config names no model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.command import run_command


@pytest.mark.parametrize(("model", "is_default"), [("", True), ('[model]\nnet = "mlp"\n', False)])
def test_the_default_model_is_named_once(tmp_path: Path, model: str, is_default: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=80), "y": rng.normal(size=80), "sick": np.arange(80) % 2})
    frame.write_csv(tmp_path / "people.csv")
    data = (
        '[data]\nfile = "people.csv"\nlabel = "sick"\n[population]\nmodels = 2\n[attacks]\nnames = ["loss"]\n'
    )
    config = tmp_path / "mine.toml"
    config.write_text(f"{data}{model}[training]\nepochs = 1\n")
    done = run_command("audit", config, "--out", tmp_path / "run")
    assert done.exit_code == 0, done
    shown = " ".join(done.out.split())
    named = "Models to train: mlp, adam with learning rate 0.001, 1 epoch, batch size 64 (the default of leak"
    assert shown.count(named) == shown.count("to train") == is_default
    assert "to train" not in run_command("audit", config, "--out", tmp_path / "run", "--quiet").out
