"""Hostile config files, run folders and weights."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import torch

from leakscope.disk.storage import json_bytes
from tests.fuzz.arrays import npz_file, spoiled_table
from tests.fuzz.mutate import NUMBERS, TEXTS, hostile_value, json_text, spoiled_bytes, spoiled_json

_CONFIG: dict[str, dict[str, Any]] = {
    "data": {"dataset": "digits", "file": "people.csv", "label": "label", "id": "id", "groups": ["group"],
             "features": ["a", "b"], "task": "auto", "standardise": True, "options": {"seed": 1}},
    "model": {"net": "mlp", "estimator": "sklearn.tree:DecisionTreeClassifier", "train": "x:y",
              "options": {"width": 8}},
    "training": {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0,
                 "schedule": "step", "step_epochs": [3], "step_factor": 0.5, "label_smoothing": 0.1,
                 "mixup": 0.2, "relax_loss": 0.5, "label_entropy": 0.5, "entropy_weight": 0.1,
                 "batch_size": 8, "epochs": 5, "checkpoints": [2, 5], "trainer": "auto"},
    "population": {"models": 8, "design": "balanced", "seed": 3, "signals": ["logits"], "device": "cpu"},
    "attacks": {"names": ["lira"], "fpr": [0.1]},
    "gate": {"max_auc": 0.6, "max_tpr": [{"fpr": 0.1, "tpr": 0.3}], "max_epsilon": 1.0, "delta": 1e-5},
    "outputs": {"temperature": 2.0, "digits": 2, "top_1": True, "random_values": True},
    "target": {"weights": "w.safetensors", "members": "members.txt"},
}  # fmt: skip


def config_file(rng: Random) -> bytes:
    document: dict[str, Any] = {}
    for section, fields in _CONFIG.items():
        if section == "data" or rng.random() < 0.5:
            document[section] = {k: v for k, v in fields.items() if rng.random() < 0.4}
    if rng.random() < 0.8:
        document = spoiled_json(rng, document)
    lines = []
    for section, fields in document.items() if isinstance(document, dict) else ():
        if isinstance(fields, dict):
            lines += [f"[{section}]", *(f"{k} = {_toml(v)}" for k, v in fields.items())]
        else:
            lines.insert(0, f"{section} = {_toml(fields)}")
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    return content if rng.random() < 0.7 else spoiled_bytes(rng, content)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    text = json.dumps(value)
    return {"Infinity": "inf", "NaN": "nan", "null": "''"}.get(text, text)


def spoil_run(rng: Random, folder: Path) -> str:
    """Changes a few files of a run folder, the checksums with them where there are any; says which."""
    changed = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        documents = [path for path in files if path.suffix == ".json"]
        path = rng.choice(documents if documents and rng.random() < 0.6 else files)
        changed.append(str(path.relative_to(folder)))
        content = path.read_bytes()
        if path.suffix == ".json" and rng.random() < 0.8:
            with contextlib.suppress(ValueError, RecursionError):
                path.write_bytes(json_text(spoiled_json(rng, json.loads(content))))
        elif path.suffix == ".parquet" and rng.random() < 0.5:
            path.write_bytes(spoiled_table(rng, content))
        elif path.suffix == ".npz" and rng.random() < 0.5:
            path.write_bytes(npz_file(rng, ("records", "pictures", "fields")))
        else:
            path.write_bytes(spoiled_bytes(rng, content))
        if rng.random() < 0.7:
            reseal(folder)
        if rng.random() < 0.05:
            path.unlink()
            path.mkdir()
    return ", ".join(changed)


def reseal(folder: Path) -> None:
    """What somebody who wants to be believed does: every checksum of the manifest is made to fit again."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        manifest.pop("sha256", None)
        for name in [name for name in manifest.get("files", {}) if (folder / name).is_file()]:
            manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / "manifest.json").write_bytes(
            json_bytes({**manifest, "sha256": hashlib.sha256(json_bytes(manifest)).hexdigest()})
        )
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        pass  # spoiled beyond that


def safetensors_file(rng: Random) -> bytes:
    header: Any = {
        "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
        "__metadata__": {"format": "pt"},
    }
    if rng.random() < 0.8:
        header = spoiled_json(rng, header)
    if rng.random() < 0.2:
        header = {"w": {"dtype": rng.choice(("F32", "I64", "BOOL", "F8_E5M2", 3)),
                        "shape": [rng.choice((*NUMBERS, 0, 0)) for _ in range(rng.randrange(5))],
                        "data_offsets": [rng.choice((0, 4)), rng.choice((0, 4, 8, *NUMBERS))]}}  # fmt: skip
    text = json.dumps(header).encode()
    size = len(text) if rng.random() < 0.9 else rng.choice(NUMBERS) % 2**64
    content = size.to_bytes(8, "little") + text + bytes(32)
    return content if rng.random() < 0.7 else spoiled_bytes(rng, content)


class Evil:
    """Runs code when it is unpickled: the file appears if anything ever reads it so."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def torch_file(rng: Random, evil: str) -> bytes:
    """A state dict, an object that runs code, or a spoiled one of either, zipped or of the old kind."""
    state: Any = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2), "n": torch.tensor(3)}
    kind = rng.randrange(10)
    if kind == 0:
        state = {"weight": Evil(evil)}
    elif kind == 1:
        state = hostile_value(rng)
    elif kind == 2:
        return pickle.dumps(rng.choice((Evil(evil), state, TEXTS, hostile_value(rng))), rng.choice((0, 2, 4)))
    elif kind == 3:
        return _with_pickle(rng, state)
    out = io.BytesIO()
    torch.save(state, out, _use_new_zipfile_serialization=rng.random() < 0.6)
    return out.getvalue() if rng.random() < 0.1 else spoiled_bytes(rng, out.getvalue())


def _with_pickle(rng: Random, state: Any) -> bytes:
    """A zipped state dict whose inner pickle, not packed, is spoiled: it still opens as an archive."""
    whole = io.BytesIO()
    torch.save(state, whole)
    out = io.BytesIO()
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            target.writestr(
                entry, spoiled_bytes(rng, content) if entry.filename.endswith(".pkl") else content
            )
    return out.getvalue()
