"""A given fine-tuned language model with references: a folder of transformers, or an adapter of PEFT."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import leakscope
from leakscope.array_types import BoolArray
from leakscope.audits.config import read_config
from leakscope.audits.given import read_members
from leakscope.audits.planning.plan import plan_audit
from leakscope.errors import InputError
from leakscope.models.fine_tuned import FineTuned
from leakscope.models.language import load_base
from leakscope.runs.verification import verify_run
from leakscope.types import digest_arrays
from tests.cli.command import run_command
from tests.data.tokenizer_folders import word_tokenizer
from tests.train.adapters.bases import saved, saved_bert, saved_gpt2, transformers

peft = pytest.importorskip("peft", reason="leakscope[text] is not installed")

CONFIG = """
[data]
file = "letters.jsonl"
text = "body"
id = "letter"
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
models = 6
device = "cpu"
[attacks]
names = ["loss", "base_model", "lira"]
[target]
members = "members.txt"
folder = "adapter"
"""


class Given(NamedTuple):
    """A base, an adapter of it that PEFT trained, and the same as a whole model."""

    folder: Path
    is_member: BoolArray

    @property
    def config(self) -> Path:
        return self.folder / "audit.toml"

    def records(self, **options: Any) -> leakscope.Records:
        return leakscope.read_text(
            self.folder / "letters.jsonl", self.folder / "base", "body", id_column="letter",
            **{"length": 16, **options},
        )  # fmt: skip


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    """PEFT trains on half of 40 documents, in a plain loop, until it knows them."""
    folder, rng = tmp_path_factory.mktemp("given"), np.random.default_rng(0)
    words = [f"word{i}" for i in range(40)]
    texts = [" ".join(rng.choice(words, size=rng.integers(8, 17))) for _ in range(40)]
    saved_gpt2(folder / "base")
    word_tokenizer(folder / "base", texts)
    is_member = rng.permutation(40) < 20
    lines = [json.dumps({"letter": f"letter {i}", "body": text}) for i, text in enumerate(texts)]
    (folder / "letters.jsonl").write_text("\n".join(lines))
    (folder / "members.txt").write_text("\n".join(f"letter {i}" for i in np.flatnonzero(is_member)))
    (folder / "audit.toml").write_text(CONFIG)
    own = Given(folder, is_member)
    _fine_tune(own)
    return own


def _fine_tune(given: Given) -> None:
    base = transformers.AutoModelForCausalLM.from_pretrained(given.folder / "base")
    lora = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = peft.get_peft_model(base, lora)
    tokens = torch.from_numpy(given.records().features[given.is_member]).long()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    rng = np.random.default_rng(1)
    for _ in range(12):  # as the recipe of the config
        for some in np.array_split(rng.permutation(len(tokens)), 3):
            labels = tokens[some].masked_fill(tokens[some] < 0, -100)
            model(input_ids=tokens[some].clamp(min=0), labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    model.save_pretrained(given.folder / "adapter")
    saved(model.merge_and_unload(), given.folder / "whole")


def signals_of_target(run: Path) -> dict[str, np.ndarray]:
    return {file.stem: np.load(file)[0] for file in (run / "signals").glob("*.npy")}


@pytest.mark.slow
def test_an_adapter_and_the_whole_model_give_the_same_audit(given: Given, tmp_path: Path) -> None:
    done = run_command("audit", given.config, "--out", tmp_path / "adapter", "--json")
    assert done.exit_code == 0, done
    results = json.loads(done.out)
    assert min(figures["auc"]["value"] for figures in results["attacks"].values()) > 0.75
    facts = results["config"]["source"]["facts"]
    weights = given.folder / "adapter" / "adapter_model.safetensors"
    assert facts["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert facts["member list sha256"] == digest_arrays(given.records().ids[given.is_member])
    assert facts["kind"] == "adapter of a language model" and facts["folder"] == "adapter"
    page = (tmp_path / "adapter" / "report.html").read_text()
    assert facts["sha256"] in page and facts["member list sha256"] not in page
    assert verify_run(tmp_path / "adapter").problems == []
    config = read_config(given.config)
    planned = plan_audit(config.settings, config.source(None))
    assert (planned.population.members, planned.population.nonmembers) == (20, 20)
    whole = given.folder / "whole.toml"
    whole.write_text(CONFIG.replace('"adapter"', '"whole"'))
    leakscope.audit(
        read_config(whole).source(None), out=tmp_path / "whole", models=6, device="cpu", attacks=["loss"]
    )
    own, other = signals_of_target(tmp_path / "adapter"), signals_of_target(tmp_path / "whole")
    for name in ("loss", "base_gap", "token_log_probs"):  # float32 weights are added in another order
        np.testing.assert_allclose(own[name], other[name], rtol=1e-4, atol=1e-5)


def test_the_target_is_queried_as_transformers_computes(given: Given) -> None:
    from leakscope.train.adapters.given import signals_of_given

    records = given.records()
    recipe = leakscope.AdapterRecipe(base=str(given.folder / "base"))
    model = FineTuned(given.folder / "whole", device="cpu")
    signals = signals_of_given(model, records, given.is_member, recipe, ("loss", "base_gap"))
    plain = transformers.AutoModelForCausalLM.from_pretrained(given.folder / "whole").eval()
    row = torch.from_numpy(records.features[3][records.features[3] >= 0]).long()[None]
    with torch.no_grad():
        expected = float(plain(input_ids=row, labels=row).loss)
    assert signals["loss"][0, 0, 3] == pytest.approx(expected, rel=1e-5)
    assert (
        signals["base_gap"][0, 0][given.is_member].mean()
        > 1
        > signals["base_gap"][0, 0, ~given.is_member].mean()
    )


def test_the_base_stays_as_it_is_when_an_adapter_is_added(given: Given) -> None:
    before = load_base(str(given.folder / "base"), None)
    weights = {name: tensor.clone() for name, tensor in before.model.state_dict().items()}
    tuned = FineTuned(given.folder / "adapter").load(None, str(given.folder / "base"))
    after = load_base(str(given.folder / "base"), None).model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in weights.items())
    assert not torch.equal(
        tuned.model.transformer.h[0].mlp.c_fc.weight, after["transformer.h.0.mlp.c_fc.weight"]
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({'folder = "adapter"': 'folder = "nowhere"'}, "is not a folder"),
        ({'folder = "adapter"': 'folder = "."'}, "has neither config.json nor adapter_config.json"),
        ({'folder = "adapter"': 'predict = "json:loads"'}, "give the folder of a fine-tuned language model"),
        ({'folder = "adapter"': 'folder = "adapter"\ntrust = true'}, "trust would do nothing"),
        ({'folder = "adapter"': ""}, "`weights`, `estimator`, `predict` or `folder`"),
        ({'folder = "adapter"': 'folder = "deeper"'}, "adapter of another base: it has 24 weights"),
        ({'folder = "adapter"': 'folder = "words"'}, "tokenizer that divides letter 0 into other tokens"),
        ({'folder = "adapter"': 'folder = "short"'}, "takes at most 8; cut them"),
    ],
)
def test_what_cannot_be_audited_is_named_before_anything_is_written(
    given: Given, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    _make_wrong_ones(given.folder)
    text = CONFIG
    for old, new in change.items():
        text = text.replace(old, new)
    (given.folder / "wrong.toml").write_text(text)
    refused = run_command("audit", given.folder / "wrong.toml", "--out", tmp_path / "run")
    assert refused.exit_code == 2 and words in " ".join(refused.err.split()), refused
    assert not (tmp_path / "run").exists()


def _make_wrong_ones(folder: Path) -> None:
    """An adapter of a deeper model, a model with another tokenizer, and one that takes short texts."""
    if (folder / "short").exists():
        return
    deeper = transformers.AutoModelForCausalLM.from_pretrained(saved_gpt2(folder / "deep", n_layer=5))
    lora = peft.LoraConfig(r=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
    peft.get_peft_model(deeper, lora).save_pretrained(folder / "deeper")
    shutil.copytree(folder / "whole", folder / "words")
    word_tokenizer(folder / "words", ["word9 word8 word7"])
    saved_gpt2(folder / "short", n_positions=8)


def test_the_id_of_a_document_stands_for_its_windows(given: Given) -> None:
    records = given.records(length=6, long="windows")
    is_member = read_members(given.folder / "members.txt", records)
    expected = given.is_member[[int(name.split()[1]) for name in records.groups["document"]]]
    np.testing.assert_array_equal(is_member, expected)
    assert len(is_member) > 80


def test_a_classifier_is_queried_by_the_names_of_its_classes(given: Given, tmp_path: Path) -> None:
    from leakscope.train.adapters.given import logits_of_given

    records = leakscope.read_text(
        given.folder / "letters.jsonl", given.folder / "base", "body", label="letter", length=16
    ).take(np.arange(3))
    labels = np.array(["no", "yes", "no"])
    records = leakscope.read_text(
        list(records.text.documents), given.folder / "base", label=labels, length=16
    )
    saved_bert(tmp_path / "bert")
    recipe = leakscope.AdapterRecipe(base=str(tmp_path / "bert"))
    with pytest.raises(InputError, match="was not fine-tuned to predict labels"):
        logits_of_given(FineTuned(tmp_path / "bert", device="cpu"), records, recipe)
    tuned = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "bert", num_labels=2)
    numbered = logits_of_given(FineTuned(saved(tuned, tmp_path / "numbered"), device="cpu"), records, recipe)
    tuned.config.id2label, tuned.config.label2id = {0: "yes", 1: "no"}, {"yes": 0, "no": 1}
    named = logits_of_given(FineTuned(saved(tuned, tmp_path / "named"), device="cpu"), records, recipe)
    assert records.class_names == ("no", "yes")
    np.testing.assert_array_equal(named, numbered[:, ::-1])
