"""`leakscope audit` says what it trains before it does, above all where the config names no model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.command import run_command

_DEFAULT = "(the default of leakscope: the config has no [model])"


@pytest.mark.parametrize(
    ("tables", "named", "is_default"),
    [
        ("[training]\nepochs = 1\n", "Models to train: mlp, adam with learning rate 0.001, 1 epochs", True),
        ('[model]\nnet = "linear"\n[training]\nepochs = 1\n', "Models to train: linear, adam", False),
        (
            '[model]\nestimator = "sklearn.tree:DecisionTreeClassifier"\n',
            "Models to train: sklearn.tree._classes:DecisionTreeClassifier.",
            False,
        ),
    ],
)
def test_the_model_is_named_once(tmp_path: Path, tables: str, named: str, is_default: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=80), "y": rng.normal(size=80), "sick": np.arange(80) % 2})
    frame.write_csv(tmp_path / "people.csv")
    data = (
        '[data]\nfile = "people.csv"\nlabel = "sick"\n[population]\nmodels = 2\n[attacks]\nnames = ["loss"]\n'
    )
    config = tmp_path / "mine.toml"
    config.write_text(data + tables)
    done = run_command("audit", config, "--out", tmp_path / "run")
    assert done.exit_code == 0, done
    shown = " ".join(done.out.split())
    assert shown.count(named) == 1 and (_DEFAULT in shown) == is_default
    assert "to train" not in run_command("audit", config, "--out", tmp_path / "run", "--quiet").out
