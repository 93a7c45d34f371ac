"""An audit of a fine-tuned language model from a config file: one door, as for every other model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.audits.config import parse_config, read_config
from leakscope.audits.planning.plan import plan_audit
from leakscope.audits.run import run_audit
from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy
from leakscope.runs.verification import verify_run
from tests.data.tokenizer_folders import word_tokenizer
from tests.train.adapters.bases import saved_gpt2

CONFIG = """
[data]
file = "letters.jsonl"
text = "body"
length = 16

[model]
base = "base"

[model.lora]
rank = 4
alpha = 8

[training]
epochs = 12
lr = 0.01

[population]
models = 16
device = "cpu"
signals = ["loss", "log_odds", "correct", "base_gap", "token_log_probs"]

[attacks]
names = ["loss", "lira"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(40)]
    texts = [" ".join(rng.choice(words, size=rng.integers(8, 17))) for _ in range(40)]
    saved_gpt2(tmp_path / "base")
    word_tokenizer(tmp_path / "base", texts)
    (tmp_path / "letters.jsonl").write_text("\n".join(json.dumps({"body": text}) for text in texts))
    (tmp_path / "audit.toml").write_text(CONFIG)
    return tmp_path


def test_a_config_names_the_base_beside_it_and_the_adapters(folder: Path) -> None:
    recipe = read_config(folder / "audit.toml").recipe()
    assert isinstance(recipe, AdapterRecipe)
    assert recipe.base == str(folder / "base") and recipe.lora == Lora(rank=4, alpha=8)
    assert (recipe.epochs, recipe.lr) == (12, 0.01)
    assert (recipe.optimizer, recipe.batch_size) == ("adamw", 8), "defaults of fine-tuning"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("[model.lora]\nrank = 4", "model: lora would do nothing: only for `base`"),
        ('[model]\nnet = "mlp"\nbase = "x"', "model: net would do nothing: `base` is a whole model"),
        ('[model]\nbase = "x"\nfull = true\n[model.lora]\nrank = 4', "full fine-tuning has no adapters"),
        ('[model]\nbase = "x"\n[model.lora]\nrank = 0', "rank=0: must be at least 1"),
        ('[model]\nbase = "x"\n[model.lora]\nranks = 4', "model.lora.ranks is not a known setting"),
    ],
)
def test_settings_that_do_nothing_or_do_not_exist_are_named(model: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_config(f'[data]\nfile = "x.jsonl"\n{model}\n', Path("my.toml"))
    assert words in str(refused.value)


def test_settings_of_networks_are_refused_for_language_models() -> None:
    text = '[data]\nfile = "x.jsonl"\n[model]\nbase = "x"\n[training]\nmixup = 0.2\n'
    with pytest.raises(InputError, match="mixup does nothing to language models"):
        parse_config(text, Path("my.toml")).recipe()
    with pytest.raises(InputError, match="privacy and full exclude each other"):
        AdapterRecipe(base="x", full=True, privacy=Privacy(epsilon=8))


@pytest.mark.slow
def test_an_audit_finds_what_adapters_learned_by_heart_and_is_verified(folder: Path) -> None:
    config = read_config(folder / "audit.toml")
    plan = plan_audit(config.settings, config.source(None))
    assert plan.cost is not None and plan.cost.training.trainer == "adapters"
    assert plan.cost.disk.signals["token_log_probs"] == 128 + 16 * 40 * 15 * 4
    verdict = run_audit(config.settings, config.source(None), folder / "run")
    aucs = [figures.auc.value for figures in verdict.results.attacks.values()]
    assert len(aucs) == 2 and min(aucs) > 0.75
    for name, n_bytes in plan.cost.disk.signals.items():
        assert (folder / "run" / "signals" / f"{name}.npy").stat().st_size == n_bytes
    assert not verify_run(folder / "run").problems
