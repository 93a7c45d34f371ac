"""Small tokenizers on disk, for tests of text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

tokenizers = pytest.importorskip("tokenizers", reason="text needs the package tokenizers")


def word_tokenizer(folder: Path, texts: Iterable[str], special: bool = False) -> Path:
    """One token per word or sign; `special`: <s> in front of a text and </s> behind it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    splitter = pre_tokenizers.Whitespace()
    words = sorted({word for text in texts for word, _ in splitter.pre_tokenize_str(text)})
    names = ["<unk>", "<s>", "</s>", *words]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(names)}, "<unk>"))
    tokenizer.pre_tokenizer = splitter
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
