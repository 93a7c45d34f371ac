"""Hugging Face, the real library: a tiny checkpoint made here, watched and audited without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakscope.errors import InputError
from leakscope.integrations import hugging_face
from tests.cli.command import run_command

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N = 48
hf: Any = None


@pytest.fixture(autouse=True, scope="module")
def library() -> None:
    """Importing it takes seconds, so no other test does."""
    global hf
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    hf = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hf.utils.logging.disable_progress_bar()


@pytest.fixture(scope="module")
def checkpoint(library: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two tiny layers and a tokenizer of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("checkpoint")
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *(f"w{i}" for i in range(60))])}
    rules = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    hf.PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder
    )
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = hf.BertConfig(vocab_size=62, max_position_embeddings=16, **size)
    hf.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def texts(checkpoint: Path) -> list[dict[str, Any]]:
    """Random words of different lengths with random labels, and a column that the model does not take."""
    tokenizer, rng = hf.AutoTokenizer.from_pretrained(checkpoint), np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.integers(0, 60, rng.integers(3, 10))) for _ in range(N)]
    return [{**tokenizer(line), "labels": int(rng.integers(2)), "text": line} for line in lines]


def trainer(checkpoint: Path, folder: Path, epochs: int = 3, **options: Any) -> Any:
    """With a shuffled sampler, gradient accumulation, dropped batches and dynamic padding."""
    tokenizer = hf.AutoTokenizer.from_pretrained(checkpoint)
    arguments = hf.TrainingArguments(
        str(folder / "trained"), num_train_epochs=epochs, learning_rate=5e-3, seed=3, use_cpu=True,
        per_device_train_batch_size=8, gradient_accumulation_steps=2, dataloader_drop_last=True,
        save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True, hub_token="hf_secret",
    )  # fmt: skip
    given = {
        "model_init": lambda: hf.AutoModelForSequenceClassification.from_pretrained(checkpoint),
        "args": arguments,
        "train_dataset": texts(checkpoint),
        "data_collator": hf.DataCollatorWithPadding(tokenizer),
    }
    return hf.Trainer(**{**given, **options})


def memorizing(checkpoint: Path, folder: Path, epochs: int = 15) -> Any:
    """Fits the labels of half of the records in one step per epoch."""
    given = trainer(checkpoint, folder, epochs)
    given.args.per_device_train_batch_size, given.args.gradient_accumulation_steps = N // 2, 1
    given.args.learning_rate = 2e-2
    return given


def test_the_monitor_changes_no_weight_and_knows_whose_loss_it_is(checkpoint: Path, tmp_path: Path) -> None:
    watch, at_the_end = hugging_face.monitor_callback(), hugging_face.monitor_callback(every=3)
    with_monitor = trainer(checkpoint, tmp_path, callbacks=[watch, at_the_end])
    without = trainer(checkpoint, tmp_path)
    with_monitor.train()
    without.train()
    weights = with_monitor.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in without.model.state_dict().items())
    assert (watch.monitor.epochs, at_the_end.monitor.epochs) == (3, 1)
    rows, model = texts(checkpoint), without.model.eval()
    with torch.no_grad():  # one by one: no padding, no collator
        last = [
            model(
                input_ids=torch.tensor([row["input_ids"]]),
                attention_mask=torch.tensor([row["attention_mask"]]),
                labels=torch.tensor([row["labels"]]),
            ).loss.item()
            for row in rows
        ]
    np.testing.assert_allclose(at_the_end.monitor.exposure(), np.sqrt(last) / np.sqrt(last).mean(), rtol=1e-4)


def test_only_rank_zero_watches(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = hugging_face.monitor_callback(losses=lambda *_: pytest.fail("another rank took the pass"))
    given = trainer(checkpoint, tmp_path, epochs=1, callbacks=[watch])
    monkeypatch.setattr(type(given), "is_world_process_zero", lambda self: False)
    given.train()
    with pytest.raises(InputError, match="no epoch was watched yet"):
        _ = watch.monitor


def test_a_model_without_one_label_per_record_asks_for_a_function() -> None:
    with pytest.raises(InputError, match="give losses=, a function of"):
        hugging_face.head_losses(None, {"input_ids": torch.zeros(2, 3), "labels": torch.zeros(2, 3)})
    with pytest.raises(InputError, match="give losses=, a function of"):
        hugging_face.head_losses(None, {"input_ids": torch.zeros(2, 3)})


def test_a_text_classifier_is_audited_and_the_audit_resumes(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"models": 8, "attacks": ["loss", "eb_lira"], "fpr": [0.1]}
    given = memorizing(checkpoint, tmp_path)
    before = {name: value.clone() for name, value in given.model.state_dict().items()}
    verdict = hugging_face.audit(given, out=tmp_path / "run", **settings)
    auc = verdict.results.headline.auc
    assert auc.low is not None and auc.low > 0.6  # random labels can only be memorized
    assert all(torch.equal(value, before[name]) for name, value in given.model.state_dict().items())
    assert capsys.readouterr().out == ""
    assert run_command("verify", tmp_path / "run").exit_code == 0
    again = hugging_face.audit(memorizing(checkpoint, tmp_path), out=tmp_path / "run", **settings)
    assert again.results == verdict.results
    with pytest.raises(InputError, match="code"):
        hugging_face.audit(memorizing(checkpoint, tmp_path, epochs=1), out=tmp_path / "run", **settings)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"hf_secret" not in stored


def test_a_trainer_without_model_init_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    model = hf.AutoModelForSequenceClassification.from_pretrained(checkpoint)
    given = trainer(checkpoint, tmp_path, model=model, model_init=None)
    with pytest.raises(InputError, match=r"write Trainer\(model_init=lambda: ...\) in place of"):
        hugging_face.audit(given, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
