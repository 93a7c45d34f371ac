"""How one language model is fine-tuned: a base, adapters beside its layers, and the settings of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from leakscope.errors import InputError
from leakscope.recipe import Recipe

_NOT_OF_TEXT = (
    "sam_rho", "label_entropy", "entropy_weight", "relax_loss", "mixup", "flips", "crop", "treatment",
    "distillation",
)  # fmt: skip
"""Settings of networks that language models do not have."""


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters (Hu et al. 2022): `alpha / rank * up @ down` is added to a layer's weights.

    The entries of `down` begin uniform in ±1/sqrt(inputs), those of `up` at zero, as in PEFT.

    Attributes:
        rank: rank of what is added to a layer's weights.
        alpha: what is added is scaled by `alpha / rank`.
        dropout: share of an adapter's inputs that training sets to zero at random.
        targets: ends of the names of the layers that get adapters, such as "q_proj" or "attn.c_attn"; empty:
            every linear layer inside the blocks of the base.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if self.rank < 1:
            problems.append(f"rank={self.rank}: must be at least 1")
        if not self.alpha > 0:
            problems.append(f"alpha={self.alpha}: must be above 0")
        if not 0 <= self.dropout < 1:
            problems.append(f"dropout={self.dropout}: must be in [0, 1)")
        if problems:
            raise InputError("lora: " + "; ".join(problems))


@dataclass(frozen=True, kw_only=True)
class AdapterRecipe(Recipe):
    """A language model of transformers, and how to fine-tune it.

    The base is frozen and shared: a block of models is one batch through it, with an adapter per model beside
    its layers. The base's own dropout is off. The loss of a document is the mean over its tokens, that of a
    batch the mean over its documents. All other settings are those of `Recipe`, with other defaults.

    With `precision="bfloat16"`, training computes in bfloat16 with a copy of the frozen weights, and a GPU
    multiplies matrices in TF32 when models are evaluated; adapters and signals are float32.

    Attributes:
        base: folder with a model of transformers, or its name on the Hugging Face hub.
        lora: the adapters.
        full: train all weights of the base instead, one model after the other.
        gradient_checkpointing: compute activations again in the backward pass instead of storing them.
        accumulation: parts that a batch is divided into, one after the other, to need less memory.
    """

    base: str = ""
    lora: Lora = field(default_factory=Lora)
    full: bool = False
    gradient_checkpointing: bool = False
    accumulation: int = 1
    net: str = "language model"
    optimizer: Literal["sgd", "adam", "adamw"] = "adamw"
    lr: float = 2e-4
    batch_size: int = 8
    epochs: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        problems = [f"{name} does nothing to language models" for name in _NOT_OF_TEXT if getattr(self, name)]
        if not self.base:
            problems.append("base is missing: give the folder of a model of transformers")
        if self.net_options or self.net != "language model":
            problems.append("net and net_options belong to networks of leakscope.Recipe")
        if self.full and self.lora != Lora():
            problems.append("give either full=True or lora: full fine-tuning has no adapters")
        if self.full and self.privacy is not None:
            problems.append("privacy and full exclude each other: DP-SGD is for adapters")
        if self.accumulation < 1:
            problems.append(f"accumulation={self.accumulation}: must be at least 1")
        if problems:
            raise InputError("; ".join(problems))

    def description(self) -> dict[str, object]:
        """JSON data in which different recipes differ.

        Not the base, which may lie elsewhere next time: the bank's identity has a hash of its weights.
        """
        left_out = ("net", "net_options", "base", *_NOT_OF_TEXT, *(("lora",) if self.full else ()))
        described = super().description()
        return {name: value for name, value in described.items() if name not in left_out}
