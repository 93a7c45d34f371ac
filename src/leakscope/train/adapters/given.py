"""A language model that someone else fine-tuned is queried as the references are."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.array_types import AnyArray, BoolArray
from leakscope.data.tokens import LocalTokenizer, load_tokenizer
from leakscope.errors import InputError
from leakscope.models.fine_tuned import FineTuned, class_names_of
from leakscope.models.given import torch_device
from leakscope.models.language import Base
from leakscope.models.outputs import columns_of
from leakscope.recipe import AnyRecipe
from leakscope.train.adapters.checks import check_tokens
from leakscope.train.adapters.choice import base_of
from leakscope.train.adapters.documents import evaluate_documents
from leakscope.train.adapters.network import Network
from leakscope.train.loop import inputs_from
from leakscope.types import Design, Records

_TOKENS_AT_ONCE = 2**14
_COMPARED_DOCUMENTS = 50


class GivenSpeaker:
    """A fine-tuned model, and the base that it is compared with (`Speakers` of `documents.py`)."""

    def __init__(self, own: Network, base: Network) -> None:
        self._own, self._base = own, base

    def outputs(self, x: Tensor) -> Tensor:
        """(1, documents, positions) -> logits (1, documents, positions, vocabulary)."""
        return _outputs(self._own, x[0])[None]

    def base_outputs(self, x: Tensor) -> Tensor:
        """(documents, positions) -> logits (documents, positions, vocabulary)."""
        return _outputs(self._base, x)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return max(network.base.vocabulary for network in (self._own, self._base))


def signals_of_given(
    model: FineTuned,
    records: Records,
    is_member: BoolArray,
    recipe: AdapterRecipe,
    signal_names: tuple[str, ...],
) -> dict[str, AnyArray]:
    """The signals of a causal model on every document; name -> (1, 1, records[, positions])."""
    target, base = _loaded(model, records, recipe), base_of(recipe, records)
    device, length = torch_device(model.device), records.features.shape[1]
    networks = (Network(one, _plain(recipe), device, length) for one in (target, base))
    inputs, design = inputs_from(records, device), Design(is_member[None])
    signals = evaluate_documents(GivenSpeaker(*networks), inputs, design, signal_names)
    for name, values in signals.items():
        if not np.isfinite(values).all():
            raise InputError(f"folder={str(model.folder)!r}: {name} of a document is not finite")
    return {name: values[:, None] for name, values in signals.items()}


def logits_of_given(model: FineTuned, records: Records, recipe: AnyRecipe) -> AnyArray:
    """The outputs of a model that predicts labels; float32 (records, classes)."""
    target = _loaded(model, records, recipe)
    device, length = torch_device(model.device), records.features.shape[1]
    network = Network(target, _plain(recipe), device, length)
    logits = _outputs(network, inputs_from(records, device).x).cpu().numpy()
    if not np.isfinite(logits).all():
        raise InputError(f"folder={str(model.folder)!r} returned NaN or infinite outputs")
    names = class_names_of(target.model)
    if not names:
        return logits
    ordered = np.empty_like(logits)
    ordered[:, columns_of(names, records.class_names, f"folder={str(model.folder)!r}")] = logits
    return ordered


def _loaded(model: FineTuned, records: Records, recipe: AnyRecipe) -> Base:
    """The model, which can read the records."""
    base = recipe.base if isinstance(recipe, AdapterRecipe) else ""
    target = model.load(None if records.is_language else records.n_classes, base)
    check_tokens(target, f"folder={str(model.folder)!r}", records)
    _refuse_other_tokenizer(model, records)
    return target


def _plain(recipe: AnyRecipe) -> AdapterRecipe:
    """A network without adapters that computes as those of the references do."""
    if not isinstance(recipe, AdapterRecipe):
        return AdapterRecipe(base="given", full=True)
    return AdapterRecipe(base=recipe.base, full=True, precision=recipe.precision)


def _outputs(network: Network, tokens: Tensor) -> Tensor:
    at_once = max(1, _TOKENS_AT_ONCE // tokens.shape[1])
    return torch.cat([network.outputs(some) for some in torch.split(tokens, at_once)])


def _refuse_other_tokenizer(model: FineTuned, records: Records) -> None:
    """Refuses records whose tokens are not those of the tokenizer that was saved with the model.

    Its settings for padding and truncation may differ, so tokens are compared, and not files.
    """
    if records.text is None or not (model.path / "tokenizer.json").is_file():
        return
    given, of_records = load_tokenizer(model.path), _tokenizer_of(records)
    if of_records is None or given.facts.digest == of_records.facts.digest:
        return
    for name, text in zip(records.ids, records.text.documents[:_COMPARED_DOCUMENTS], strict=False):
        if given.inner.encode(text).ids != of_records.inner.encode(text).ids:
            raise InputError(
                f"folder={str(model.folder)!r} has a tokenizer that divides {name} into other tokens; use "
                "it for the records: tokenizer = ... under [data]"
            )


def _tokenizer_of(records: Records) -> LocalTokenizer | None:
    """The tokenizer that made the tokens; None where it is not in a folder."""
    assert records.text is not None, "checked by the caller"
    try:
        return load_tokenizer(records.text.tokenizer.name)
    except InputError:
        return None
