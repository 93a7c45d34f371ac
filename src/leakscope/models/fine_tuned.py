"""A language model that someone else fine-tuned: a folder of transformers, or of an adapter of PEFT.

FineTuned(Path("models/tuned")).load(None, "models/base")
"""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakscope.disk.storage import sha256_of
from leakscope.errors import InputError, MissingExtraError, first_line

if TYPE_CHECKING:
    from leakscope.models.language import Base

_ADAPTER_CONFIG, _MODEL_CONFIG = "adapter_config.json", "config.json"
_WEIGHTS = ("*.safetensors", "*.bin")
_OF_PEFT = "base_model.model."
"""What PEFT writes in front of the names of a model's own layers."""
_NOT_LOADED = (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError, AttributeError)
"""What PEFT raises where an adapter does not fit."""


@dataclass(frozen=True)
class FineTuned:
    """A fine-tuned language model: one that predicts the next token, or one that predicts labels.

    Attributes:
        folder: with a model of transformers, or with an adapter of PEFT.
        base: what the adapter was trained on, a folder or a name on the Hugging Face hub; by default the base
            of the references.
        device: "auto", "cpu", "cuda" or "cuda:N".
    """

    folder: Path | str
    base: str = ""
    device: str = "auto"

    @property
    def path(self) -> Path:
        """The folder.

        Raises:
            InputError: there is no such folder, or it holds no model.
        """
        path = Path(self.folder).expanduser()
        if not path.is_dir():
            raise InputError(f"folder={str(self.folder)!r} is not a folder; give that of a fine-tuned model")
        if not any((path / name).is_file() for name in (_ADAPTER_CONFIG, _MODEL_CONFIG)):
            raise InputError(
                f"folder={str(self.folder)!r} has neither {_MODEL_CONFIG} nor {_ADAPTER_CONFIG}; save the "
                "model there with save_pretrained"
            )
        return path

    @property
    def is_adapter(self) -> bool:
        """Whether it is an adapter of PEFT."""
        return (self.path / _ADAPTER_CONFIG).is_file()

    def load(self, n_outputs: int | None, base: str) -> Base:
        """The model, float32; the weights of an adapter are added to those of its base.

        Args:
            n_outputs: of a model that predicts labels; None: a causal model.
            base: of an adapter whose `base` is not given; empty: the one that PEFT wrote down.

        Raises:
            InputError: the folder holds no such model, or the adapter does not fit the base.
            MissingExtraError: transformers or peft is not installed.
        """
        from leakscope.models.language import load_base, load_model

        if self.is_adapter:
            return _with_adapter(
                load_base(self.base or base or _stated_base(self.path), n_outputs), self.path
            )
        model = load_model(str(self.path), n_outputs, "folder")
        if model.new:
            raise InputError(
                f"folder={str(self.folder)!r} has no weights for {', '.join(sorted(model.new)[:3])}: it was "
                "not fine-tuned to predict labels"
            )
        return model

    def describe(self) -> dict[str, str]:
        """What identifies the model in a report."""
        path = self.path
        kind = "adapter of a language model" if self.is_adapter else "fine-tuned language model"
        files = sorted(file for pattern in _WEIGHTS for file in path.glob(pattern))
        config = path / (_ADAPTER_CONFIG if self.is_adapter else _MODEL_CONFIG)
        facts = {"kind": kind, "folder": path.resolve().name}
        if len(files) == 1:
            facts |= {"file": files[0].name, "sha256": sha256_of(files[0])}
        elif files:
            facts |= {"file": f"{len(files)} files of weights", "sha256": _digest_of_list(files)}
        return facts | {f"{config.name} sha256": sha256_of(config)}


def _digest_of_list(files: list[Path]) -> str:
    """Sha256 of what `sha256sum` prints about the files, in the order of their names."""
    lines = "".join(f"{sha256_of(file)}  {file.name}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _with_adapter(base: Base, folder: Path) -> Base:
    """The base with the adapter's weights added; the base itself stays as it is."""
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("an adapter of PEFT needs peft: pip install 'leakscope[text]'") from error
    own = copy.deepcopy(base.model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it warns about is refused below
            config = peft.PeftConfig.from_pretrained(str(folder))
            config.inference_mode = True
            wrapped = peft.get_peft_model(own, config)
            result = wrapped.load_adapter(str(folder), "default", torch_device="cpu")
            _refuse_other_layers(result, folder)
            merged = wrapped.merge_and_unload()
    except _NOT_LOADED as error:
        raise InputError(
            f"folder={str(folder)!r} is no adapter that PEFT can add to this base: {first_line(error)}"
        ) from error
    _refuse_new_head(base, folder)
    return base._replace(model=merged.float().eval().requires_grad_(False), new=frozenset())


def _refuse_other_layers(result: Any, folder: Path) -> None:
    """PEFT leaves out what does not fit, without an error, and the base would be audited instead."""
    for what, names in (("has", result.unexpected_keys), ("lacks", result.missing_keys)):
        if names:
            raise InputError(
                f"folder={str(folder)!r} is an adapter of another base: it {what} {len(names)} weights that "
                f"this base {'does not have' if what == 'has' else 'needs'}, such as {sorted(names)[0]}"
            )


def _refuse_new_head(base: Base, folder: Path) -> None:
    """The head of a classifier must be among what was saved."""
    from peft.utils import load_peft_weights

    saved = load_peft_weights(str(folder), device="cpu") if base.new else {}
    missing = sorted(name for name in base.new if f"{_OF_PEFT}{name}" not in saved)
    if missing:
        raise InputError(
            f"folder={str(folder)!r} has no weights for {', '.join(missing[:3])}: name the layer in "
            "modules_to_save when you train the adapter"
        )


def class_names_of(model: Any) -> tuple[str, ...]:
    """What a model that predicts labels calls them; empty where they are only numbered."""
    names = {int(number): str(name) for number, name in (model.config.id2label or {}).items()}
    ordered = tuple(names[number] for number in sorted(names))
    is_numbered = all(name == f"LABEL_{number}" for number, name in enumerate(ordered))
    return () if is_numbered else ordered


def _stated_base(folder: Path) -> str:
    """The base that PEFT wrote down when it saved the adapter."""
    try:
        stated = json.loads((folder / _ADAPTER_CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / _ADAPTER_CONFIG} cannot be read ({first_line(error)})") from error
    return str(stated.get("base_model_name_or_path") or "") if isinstance(stated, dict) else ""
