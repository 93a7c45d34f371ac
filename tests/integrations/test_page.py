"""The snippets of docs/integrations.md run, and the examples add as few lines as the page says."""

from __future__ import annotations

import ast
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import leakscope
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.tracking import TRACKERS
from tests.examples.test_examples import EXAMPLES
from tests.test_docs import TEXTS, blocks

SNIPPETS = blocks(TEXTS["docs/integrations.md"], "python")


def snippet(word: str) -> str:
    (found,) = [code for code in SNIPPETS if word in code]
    return found


@pytest.fixture
def run_folder(population: Verdict, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(population.folder, elsewhere / "runs" / "demo")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    return elsewhere


def test_every_snippet_is_run_here() -> None:
    words = [f'to="{tracker}"' for tracker in TRACKERS]
    words += [f"{trainer}.{use}" for trainer in ("lightning", "hugging_face") for use in ("monitor", "audit")]
    words.append("tracked_run(")
    assert {snippet(word) for word in words} == set(SNIPPETS)


def test_what_other_trackers_receive(run_folder: Path) -> None:
    exec(snippet("tracked_run("), names := dict[str, Any]())
    assert names["run"].metrics["leakscope/auc"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker(tracker: str, run_folder: Path) -> None:
    library = pytest.importorskip(tracker, reason=f"{tracker} is not installed")
    if tracker == "mlflow":
        library.set_tracking_uri(f"file:{run_folder}/mlruns")
    exec(snippet(f'to="{tracker}"'), {})
    if tracker == "mlflow":
        library.set_tracking_uri(None)
    if tracker == "wandb":
        library.teardown()
    written = {
        "mlflow": "mlruns/*/*/metrics",
        "wandb": "wandb/offline-run-*",
        "tensorboard": "logs/demo/events*",
    }
    assert len(list(run_folder.glob(written[tracker]))) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_lightning(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pl = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")
    from tests.integrations.noise_module import Noise, make_trainer, rows

    names = {
        "Trainer": pl.Trainer,
        "LitModel": Noise,
        "loader": DataLoader(rows(), batch_size=8, shuffle=True),
        "make_trainer": make_trainer,
        "train_set": rows(),
    }
    exec(snippet("lightning.monitor"), names)
    exec(snippet("lightning.audit"), names)
    assert "8 models were each trained on a random half of 48 records" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_hugging_face(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An image classifier; tests/integrations/test_hugging_face.py has one of texts."""
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    generator = torch.Generator().manual_seed(0)
    train_set = [
        {"pixel_values": torch.randn(3, 8, 8, generator=generator), "labels": at % 2} for at in range(48)
    ]
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = hf.ViTConfig(image_size=8, patch_size=4, num_labels=2, **size)
    args = hf.TrainingArguments("t", num_train_epochs=1, use_cpu=True, report_to=[], disable_tqdm=True,
                                save_strategy="no", per_device_train_batch_size=24)  # fmt: skip
    names = {
        "Trainer": hf.Trainer,
        "model": hf.ViTForImageClassification(config),
        "args": args,
        "collator": hf.default_data_collator,
        "train_set": train_set,
        "trainer": hf.Trainer(
            model_init=lambda: hf.ViTForImageClassification(config), args=args, train_dataset=train_set
        ),
    }
    exec(snippet("hugging_face.monitor"), names)
    exec(snippet("hugging_face.audit"), names)
    assert "8 models were each trained on a random half of 48 records" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["lightning_monitor.py", "lightning_audit.py", "hf_text.py"])
def test_an_example_adds_at_most_three_lines_for_each_use(name: str) -> None:
    """Without them and `callbacks=[watch]`, it is a program of its own that knows nothing of leakscope."""
    text = (EXAMPLES / name).read_text().split('"""', 2)[2]
    added = [line for line in text.splitlines() if line.endswith("# leakscope")]
    of_monitor = [line for line in added if "watch" in line or "import" in line]
    of_audit = [line for line in added if "verdict" in line or "import" in line]
    assert len(of_monitor) <= 3 and len(of_audit) <= 3
    assert set(of_monitor) | set(of_audit) == set(added)
    own = "\n".join(
        line for line in text.splitlines() if line not in added and "callbacks=[watch]" not in line
    )
    used = {node.id for node in ast.walk(ast.parse(own)) if isinstance(node, ast.Name)}
    assert "leakscope" not in own and not used & {"watch", "verdict", "lightning", "hugging_face"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_monitor_of_lightning_finds_flipped_labels(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")
    runpy.run_path(str(EXAMPLES / "lightning_monitor.py"))
    share = capsys.readouterr().out.splitlines()[-1].removeprefix("flipped labels in the top 5%: ")
    assert int(share.rstrip("%")) >= 70


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["lightning_audit.py", "hf_text.py"])
def test_an_example_is_audited(
    name: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 4 models in place of 16, and fewer epochs."""
    library = "pytorch_lightning" if "lightning" in name else "transformers"
    pytest.importorskip(library, reason=f"{library} is not installed")
    text = (EXAMPLES / name).read_text().replace("models=16", 'models=4, attacks=["loss"]')
    text = text.replace("max_epochs=10", "max_epochs=1").replace("num_train_epochs=8", "num_train_epochs=1")
    (elsewhere / name).write_text(text)
    runpy.run_path(str(elsewhere / name))
    assert "4 models were each trained on a random half of" in capsys.readouterr().out
    assert len(list(Path("runs").glob("*/report.html"))) == 1
    assert np.isfinite(leakscope.open_run(next(Path("runs").iterdir())).results.headline.auc.value)
