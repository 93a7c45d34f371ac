"""Hostile files of weights: each of these once ended in a traceback."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from leakscope.errors import InputError
from leakscope.models.weights import read_state


@pytest.mark.parametrize("shape", [[0, 2**64], [0, 10**30], [1.5, 2], [-1, -2], ["a"], [[2]], None])
def test_shapes_in_safetensors(tmp_path: Path, shape: Any) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_state(tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors").write_bytes((10**5).to_bytes(8, "little") + b"[" * 10**5)
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_state(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "content", [b"\x80\x02.", b"\x80\x02}q\x00X", b"\x80\x02b.", b"\x80\x02\x8a\xff.", b"\x80\x02h\x07."]
)
def test_pickles_that_end_too_early(tmp_path: Path, content: bytes) -> None:
    whole = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, whole)
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            target.writestr(entry, content if entry.filename.endswith(".pkl") else source.read(entry))
    with pytest.raises(InputError):
        read_state(path)
    path.write_bytes(pickle.dumps({"w": 1})[:-3])
    with pytest.raises(InputError):
        read_state(path)
