"""Records of text and recipes of language models belong together; what is wrong with a pair, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.disk.mmap_rows import row_blocks
from leakscope.errors import InputError
from leakscope.recipe import AnyRecipe, FunctionRecipe
from leakscope.signals.registry import LABEL_ROBUSTNESS, QUERY_LOG_ODDS
from leakscope.types import Design, Records

if TYPE_CHECKING:
    from leakscope.models.language import Base


def check_text(recipe: AnyRecipe, records: Records, design: Design, signal_names: tuple[str, ...]) -> None:
    """Refuses text without a language model, a language model without text, and text that it cannot read.

    Raises:
        InputError: the message names the setting.
    """
    if not isinstance(recipe, AdapterRecipe):
        if records.is_language or (records.is_text and not isinstance(recipe, FunctionRecipe)):
            raise InputError(
                f"{records.name} is text: give the folder of a language model, base = ... under [model] "
                "(leakscope.AdapterRecipe(base=...) in Python)"
            )
        return
    if not records.is_text:
        raise InputError(f"base={recipe.base!r} is a language model, and {records.name} is not text")
    again = [name for name in (LABEL_ROBUSTNESS, QUERY_LOG_ODDS) if name in signal_names]
    if again:
        raise InputError(
            f"signals={again[0]!r} queries slightly changed records, and token ids cannot be changed slightly"
        )
    if design.columns is not None:
        raise InputError("language models are queried about the same records, and this design has others")
    from leakscope.models.language import linear_layers
    from leakscope.train.adapters.choice import base_of

    base = base_of(recipe, records)
    if not recipe.full:
        linear_layers(base.model, recipe.lora.targets)
    check_tokens(base, f"base={recipe.base!r}", records)


def check_tokens(base: Base, name: str, records: Records) -> None:
    """Refuses records that a model cannot read; `name` is what messages call it.

    Raises:
        InputError: records are too long or too short for it, or have other tokens.
    """
    length = records.features.shape[1]
    if base.longest is not None and length > base.longest:
        raise InputError(
            f"{records.name} has records of {length:,} tokens, and {name} takes at most "
            f"{base.longest:,}; cut them, length = {base.longest} under [data]"
        )
    for rows in row_blocks(records.features):
        tokens = records.features[rows]
        if int(tokens.max()) >= base.vocabulary:
            raise InputError(
                f"{records.name} has token id {int(tokens.max()):,}, and {name} has "
                f"{base.vocabulary:,} tokens; use the tokenizer of the base"
            )
        short = (tokens >= 0).sum(axis=1) < 2
        if records.is_language and short.any():
            where = records.ids[rows][int(np.argmax(short))]
            raise InputError(
                f"{records.name}: a document has fewer than two tokens (id {where}); leave it out"
            )
