from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from leakscope.errors import InputError
from leakscope.models.nets import mlp
from leakscope.models.weights import load_net, read_state

OPTIONS = {"width": 5}
OFF_BY_FOUR = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,12]}}'
NAN_SHAPE = b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}'


def small_net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return mlp((6,), 3, width=5).eval()


def save(path: Path, state: dict[str, torch.Tensor]) -> Path:
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return path


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.safetensors"])
def test_the_loaded_net_computes_what_the_saved_one_does(tmp_path: Path, name: str) -> None:
    net = small_net()
    loaded = load_net(save(tmp_path / name, net.state_dict()), "mlp", OPTIONS, (6,), 3)
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(11, 6)).astype(np.float32))
    with torch.no_grad():
        assert torch.equal(loaded(features), net(features))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_safetensors_of_every_type(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {"a": torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype), "empty": torch.empty(0, 2, dtype=dtype)}
    read = read_state(save(tmp_path / "x.safetensors", state))
    assert read["a"].dtype == dtype and torch.equal(read["a"], state["a"])
    assert read["empty"].shape == (0, 2)


@pytest.mark.parametrize(
    "wrap", [lambda s: {"state_dict": s, "epoch": 3}, lambda s: {f"module.{k}": v for k, v in s.items()}]
)
def test_checkpoints_and_data_parallel_names(tmp_path: Path, wrap) -> None:  # type: ignore[no-untyped-def]
    state = small_net().state_dict()
    torch.save(wrap(state), tmp_path / "x.pt")
    assert set(read_state(tmp_path / "x.pt")) == set(state)


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code ran",)


@pytest.mark.parametrize("writer", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_a_pickle_with_code_is_refused_and_does_not_run(tmp_path: Path, capsys, writer) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "x.pt"
    writer({"a": Malicious()}, path)
    with pytest.raises(InputError, match="reading it could run code, so it is refused; save the weights"):
        read_state(path)
    assert "code ran" not in capsys.readouterr().out


def test_a_whole_module_is_refused(tmp_path: Path) -> None:
    torch.save(small_net(), tmp_path / "x.pt")
    with pytest.raises(InputError, match="could run code"):
        read_state(tmp_path / "x.pt")


def headed(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"nothing", "x.safetensors", "cannot be read as safetensors"),
        (b"", "x.safetensors", "cannot be read as safetensors"),
        (headed(b"[]"), "x.safetensors", "cannot be read as safetensors"),
        (headed(NAN_SHAPE, b"0" * 4), "x.safetensors", "cannot be read as safetensors"),
        (headed(OFF_BY_FOUR, b"0" * 12), "x.safetensors", r"\(.*invalid shape"),
        (headed(OFF_BY_FOUR, b""), "x.safetensors", "cannot be read as safetensors"),
        ((2**60).to_bytes(8, "little"), "x.safetensors", "cannot be read as safetensors"),
        (b"", "x.pt", "cannot be read as torch weights"),
        (b"x", "x.onnx", "unknown extension '.onnx'; give weights as .safetensors"),
    ],
)  # fmt: skip
def test_damaged_files_are_named_in_one_line(tmp_path: Path, content: bytes, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_state(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_absent_files_and_other_content(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_state(tmp_path / "x.pt")
    torch.save(torch.zeros(3), tmp_path / "x.pt")
    with pytest.raises(InputError, match="holds no state dict"):
        read_state(tmp_path / "x.pt")


def test_weights_of_another_net_say_what_differs(tmp_path: Path) -> None:
    state = small_net().state_dict()
    path = save(tmp_path / "x.pt", state)
    with pytest.raises(InputError, match=r"1.weight is \(5, 6\), the net has \(8, 6\)"):
        load_net(path, "mlp", {"width": 8}, (6,), 3)
    with pytest.raises(InputError, match=r"missing 5.weight, 5.bias"):
        load_net(path, "mlp", {"width": 5, "depth": 2}, (6,), 3)
    with pytest.raises(InputError, match=r"unexpected 3.weight, 3.bias"):
        load_net(path, "linear", {}, (6,), 3)
