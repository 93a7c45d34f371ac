"""Files of weights that are read without torch: the same numbers, and nothing that runs."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from leakscope.errors import InputError
from leakscope.models import given
from leakscope.models.given import NetWeights
from leakscope.models.nets import mlp
from leakscope.models.plain_weights import plain_state

X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
CLASSES = ("a", "b", "c")


def net() -> torch.nn.Module:
    torch.manual_seed(3)
    return mlp((4,), 3, width=7, depth=2)


@pytest.fixture(params=["net.pt", "net.pth", "net.safetensors"])
def weights(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    (save_file if path.suffix == ".safetensors" else torch.save)(net().state_dict(), path)
    return path


def test_it_reads_what_torch_reads(weights: Path) -> None:
    state = plain_state(weights)
    assert state is not None
    theirs = net().state_dict()
    assert list(state) == list(theirs) or weights.suffix == ".safetensors"
    assert all(state[name].tobytes() == theirs[name].numpy().tobytes() for name in theirs)


def test_outputs_are_those_of_torch(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = NetWeights(weights, "mlp", {"width": 7, "depth": 2})
    ours = model.outputs(X, CLASSES)
    monkeypatch.setattr(given, "plain_state", lambda _: None)
    theirs = model.outputs(X, CLASSES)
    assert ours.kind == theirs.kind
    np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-6)


class Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def archive(path: Path, content: bytes, numbers: bytes = b"", order: bytes = b"little") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("archive/data.pkl", content)
        made.writestr("archive/byteorder", order)
        made.writestr("archive/data/0", numbers)
    return path


def test_a_pickle_that_runs_code_is_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    for harmful in (Harm(trace), {"1.weight": Harm(trace)}, OrderedDict(x=Harm(trace)), {Harm: 1}, eval):
        path = archive(tmp_path / "net.pt", pickle.dumps(harmful, 2))
        assert plain_state(path) is None
        with pytest.raises(InputError):
            NetWeights(path, "mlp", {"width": 7, "depth": 2}).outputs(X, CLASSES)
    assert not trace.exists()


@pytest.mark.parametrize(
    "state",
    [
        {"half": torch.zeros(2).half()},
        {"double": torch.zeros(2).double()},
        {"integers": torch.zeros(2).long()},
        {"transposed": torch.zeros(2, 3).T},
        {"a number": 1.0},
        [torch.zeros(2)],
        {1: torch.zeros(2)},
    ],
    ids=str,
)
def test_what_is_not_plain_is_left_to_torch(state: Any, tmp_path: Path) -> None:
    torch.save(state, tmp_path / "net.pt")
    assert plain_state(tmp_path / "net.pt") is None


def test_a_part_of_a_larger_tensor_is_read_where_it_begins(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    torch.save({"part": whole[4:10].view(2, 3), "all": whole}, tmp_path / "net.pt")
    state = plain_state(tmp_path / "net.pt")
    assert state is not None
    assert state["part"].tolist() == [[4, 5, 6], [7, 8, 9]]


def test_damaged_files_are_left_to_torch(tmp_path: Path) -> None:
    torch.save(net().state_dict(), tmp_path / "net.pt")
    whole = (tmp_path / "net.pt").read_bytes()
    rng = np.random.default_rng(0)
    for n in range(200):
        damaged = bytearray(whole[: rng.integers(len(whole))] if n % 2 else whole)
        for _ in range(3):
            damaged[rng.integers(max(len(damaged), 1)) if damaged else 0 :][:1] = b""
            if damaged:
                damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
        (tmp_path / "damaged.pt").write_bytes(damaged)
        state = plain_state(tmp_path / "damaged.pt")  # whatever it is: no exception
        assert state is None or all(array.dtype == np.float32 for array in state.values())


def test_an_archive_that_unpacks_to_more_than_it_is_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "net.pt", pickle.dumps({}), numbers=bytes(1 << 25))
    assert path.stat().st_size < 1 << 20
    assert plain_state(path) is None
    assert plain_state(archive(tmp_path / "big.pt", pickle.dumps({}), order=b"big")) is None


def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    torch.save(net().state_dict(), tmp_path / "net.pt")
    with pytest.raises(InputError, match="does not fit"):
        NetWeights(tmp_path / "net.pt", "mlp", {"width": 8, "depth": 2}).outputs(X, CLASSES)
