"""Banks of language models: resumed where they were killed, and refused where the base is another."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.data.registry import load
from leakscope.disk.saved_training import STATES
from leakscope.engine import request as requests
from leakscope.engine.local import complete_bank
from leakscope.engine.request import TrainingRequest, check_request
from leakscope.errors import BankMismatchError, InputError
from leakscope.privacy.settings import PRIVACY_SPENT, Privacy
from leakscope.recipe import Recipe
from tests.train.adapters.bases import documents, random_halves, saved_gpt2


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_gpt2(tmp_path_factory.mktemp("base"))


def request_for(base: str, **options: Any) -> TrainingRequest:
    records = documents(20)
    settings = {"lora": Lora(rank=2, dropout=0.1), "epochs": 2, "lr": 5e-3, "batch_size": 4}
    recipe = AdapterRecipe(base=base, **{**settings, **options})
    return TrainingRequest(records, random_halves(4, len(records)), recipe, seed=3, device="cpu")


def stop_after(share: float) -> Any:
    """A follower of progress that stops the run once so much is done."""
    done = 0.0

    def progress(models: float) -> None:
        nonlocal done
        done += models
        if done >= share:
            raise KeyboardInterrupt

    return progress


PRIVATE = {"privacy": Privacy(noise_multiplier=1.0, delta=1e-2)}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="adapters"),
        pytest.param(PRIVATE, id="private", marks=pytest.mark.slow),
        pytest.param({"full": True, "lora": Lora()}, id="full", marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_in_training_ends_as_if_nothing_had_happened(
    base: str, tmp_path: Path, options: dict[str, Any]
) -> None:
    request = request_for(base, **options)
    whole = complete_bank(tmp_path / "whole", request).signals()
    with pytest.raises(KeyboardInterrupt):
        complete_bank(tmp_path / "killed", request, progress=stop_after(0.4), save_seconds=0.0)
    assert list((tmp_path / "killed" / STATES).glob("*/state"))
    resumed = complete_bank(tmp_path / "killed", request).signals()
    assert set(whole.arrays) == set(resumed.arrays)
    for name, values in whole.arrays.items():
        np.testing.assert_array_equal(values, resumed.arrays[name])


def test_another_base_is_refused_and_a_moved_one_is_not(base: str, tmp_path: Path) -> None:
    moved = shutil.copytree(base, tmp_path / "moved")
    other = saved_gpt2(tmp_path / "other", seed=1)
    complete_bank(tmp_path / "run", request_for(base))
    complete_bank(tmp_path / "run", request_for(str(moved)))
    with pytest.raises(BankMismatchError, match="base_sha256"):
        complete_bank(tmp_path / "run", request_for(other))


def test_a_base_with_one_other_setting_or_weight_has_another_identity(base: str, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    before = check_request(request_for(base))
    changed = Path(shutil.copytree(base, tmp_path / "changed"))
    config = changed / "config.json"
    config.write_text(
        config.read_text().replace('"layer_norm_epsilon": 1e-05', '"layer_norm_epsilon": 1e-04')
    )
    assert check_request(request_for(str(changed))) != before
    nudged = Path(shutil.copytree(base, tmp_path / "nudged"))
    weights = load_file(nudged / "model.safetensors")
    name = min(weights)
    weights[name] = torch.nextafter(weights[name], torch.tensor(10.0))
    save_file(weights, nudged / "model.safetensors", metadata={"format": "pt"})
    assert check_request(request_for(str(nudged))) != before
    assert check_request(request_for(base)) == before


def test_settings_of_the_adapter_belong_to_the_identity(base: str) -> None:
    before = check_request(request_for(base))
    for lora in (Lora(rank=3, dropout=0.1), Lora(rank=2, dropout=0.1, targets=("c_fc",))):
        assert check_request(request_for(base, lora=lora)) != before


def test_dp_lora_spends_what_the_accountant_says(base: str) -> None:
    private = request_for(base, **PRIVATE)
    spent = check_request(private).recipe[PRIVACY_SPENT]
    same = replace(private, recipe=Recipe(batch_size=4, epochs=2, privacy=private.recipe.privacy))  # type: ignore[union-attr]
    numbers = np.zeros((20, 3), dtype=np.float32)
    as_table = replace(documents(20, classes=2), features=numbers)
    assert spent == check_request(replace(same, records=as_table)).recipe[PRIVACY_SPENT]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recipe": Recipe()}, "is text: give the folder of a language model"),
        ({"records": load("digits")}, "is a language model, and digits is not text"),
        ({"records": documents(20, shortest=1, seed=4)}, "a document has fewer than two tokens"),
        ({"signals": ("logits",)}, "a language model has"),
        ({"queries": 4}, "queries=4"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(base: str, change: dict[str, Any], words: str) -> None:
    request = replace(request_for(base), **change)
    with pytest.raises(InputError, match=words):
        check_request(request)


def test_tokens_that_the_base_does_not_know_are_refused(base: str) -> None:
    request, records = request_for(base), documents(20)
    unknown, long = records.features.copy(), np.pad(records.features, ((0, 0), (0, 1)), constant_values=-1)
    unknown[3, 0] = 61
    with pytest.raises(InputError, match=r"has token id 61, .* has 61 tokens; use the tokenizer of the base"):
        check_request(replace(request, records=replace(records, features=unknown)))
    with pytest.raises(InputError, match=r"25 tokens, .* takes at most 24"):
        check_request(replace(request, records=replace(records, features=long)))


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "HF_ENDPOINT"])
def test_a_hub_name_without_a_network_gives_one_line(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setenv(variable, "1" if variable == "HF_HUB_OFFLINE" else "http://127.0.0.1:9")
    with pytest.raises(InputError) as refused:
        check_request(request_for("somebody/a-model-that-is-not-here"))
    assert "is no folder here, and could not be fetched from the Hugging Face hub" in str(refused.value)
    assert "cannot be reached" in str(refused.value) and "\n" not in str(refused.value)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match="is no model that transformers loads"):
        check_request(request_for(str(tmp_path)))


def test_a_block_has_sixteen_models_and_fewer_where_single_tokens_are_stored(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for(base)
    assert check_request(request).block_size == 16
    monkeypatch.setattr(requests, "_BLOCK_OUTPUTS", 2 * 2 * 20 * 24)
    stored = replace(request, signals=("loss", "token_log_probs"))
    assert check_request(stored).block_size == 4
