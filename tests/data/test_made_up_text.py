"""Made-up letters: deterministic, secrets uniform and where they are said to be, a control without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="letters need the package tokenizers")

from leakscope.data.made_up_text import letters, made_up_corpus
from leakscope.data.near_copies import words_of
from leakscope.data.registry import load
from leakscope.data.tokens import load_tokenizer
from leakscope.errors import InputError
from leakscope.evaluate.hygiene.shift import check_shift, text_shift_scores
from leakscope.frames.text import END, Secrets
from leakscope.types import Records


def secrets_of(records: Records) -> Secrets:
    assert records.text is not None and records.text.secrets is not None
    return records.text.secrets


def test_a_seed_makes_the_same_letters_and_another_one_others() -> None:
    first = letters(seed=3, n_documents=40, n_secrets=4)
    assert first.digest == letters(seed=3, n_documents=40, n_secrets=4).digest
    assert first.digest != letters(seed=4, n_documents=40, n_secrets=4).digest
    corpus = made_up_corpus(seed=3, n_public=10, n_private=40, n_secrets=4)
    assert corpus.private.digest == first.digest


def test_the_control_has_the_same_letters_without_the_secrets() -> None:
    records, control = letters(n_documents=60, n_secrets=6), letters(n_documents=60, n_secrets=0)
    assert control.text is not None and records.text is not None
    assert control.is_canary is None and control.text.secrets is None
    assert records.is_canary is not None and records.is_canary.sum() == 6
    for planted, with_secret, without in zip(
        records.is_canary, records.text.documents, control.text.documents, strict=True
    ):
        assert (with_secret != without) == planted
        assert "code" not in without
        if planted:
            assert with_secret.startswith("The code of ") and with_secret.endswith(f". {without}")


def test_spans_say_where_the_secret_is_in_letters_and_alternatives() -> None:
    records = letters(n_documents=50, n_secrets=5, n_digits=4, n_alternatives=30)
    secrets, tokenizer = secrets_of(records), made_up_corpus(n_public=1, n_private=2, n_secrets=0).tokenizer
    assert (secrets.space, len(secrets)) == (10_000, 5)
    assert secrets.alternatives.shape == (5, 30, 64) and secrets.alternatives.dtype == np.int32

    def digits(tokens: np.ndarray, span: np.ndarray) -> str:
        return " ".join(tokenizer.inner.id_to_token(int(t)) for t in tokens[span[0] : span[1]])

    for record, value, span, others in zip(
        secrets.records, secrets.values, secrets.spans, secrets.alternatives, strict=True
    ):
        own = records.features[record]
        assert digits(own, span) == value
        drawn = [digits(other, span) for other in others]
        assert len({value, *drawn}) == 31  # all different
        outside = np.ones(64, dtype=np.bool_)
        outside[span[0] : span[1]] = False
        assert (others[:, outside] == own[outside]).all()


def test_the_planted_secret_is_any_of_its_candidates_alike() -> None:
    """Ranked by its number, a secret has a uniform rank among 8: chi-square at a level of 0.001."""
    secrets = secrets_of(letters(n_documents=800, n_secrets=800, n_digits=3, n_alternatives=7))
    tokens = secrets.alternatives[:, :, secrets.spans[0, 0] :]
    own = [int(value.replace(" ", "")) for value in secrets.values]
    assert 400 < np.mean(own) < 600 and len(set(own)) > 450
    tokenizer = made_up_corpus(n_public=1, n_private=2, n_secrets=0).tokenizer.inner
    others = [
        [int("".join(tokenizer.id_to_token(int(t)) for t in row[:3])) for row in rows] for rows in tokens
    ]
    ranks = [sum(other < one for other in rows) for one, rows in zip(own, others, strict=True)]
    counts = np.bincount(ranks, minlength=8)
    assert ((counts - 100) ** 2 / 100).sum() < 24.32


def test_every_word_has_a_token_and_letters_fit() -> None:
    corpus = made_up_corpus(n_public=300, n_private=300, n_secrets=20)
    unknown = corpus.tokenizer.inner.token_to_id("<unk>")
    for tokens in (corpus.public, corpus.private.features, secrets_of(corpus.private).alternatives):
        assert not (tokens == unknown).any()
        assert tokens.max() < corpus.tokenizer.facts.vocabulary
        assert (tokens[..., 0] == corpus.tokenizer.inner.token_to_id("<s>")).all()
    reading = corpus.private.text.reading if corpus.private.text else None
    assert reading is not None and reading.long <= 3


def test_the_public_part_has_the_form_of_secrets_but_none_of_them() -> None:
    corpus = made_up_corpus(n_public=400, n_private=100, n_secrets=30)
    decoded = [corpus.tokenizer.inner.decode([t for t in row if t != END]) for row in corpus.public.tolist()]
    assert sum("The code of" in text for text in decoded) > 20
    assert not any(value in text for value in secrets_of(corpus.private).values for text in decoded)


def test_letters_have_no_near_copies_and_words_say_nothing_about_halves() -> None:
    records = letters(n_documents=400)
    assert records.text is not None and records.text.near_copies is not None
    assert (records.text.near_copies == np.arange(400)).mean() > 0.99
    documents, is_member = records.text.documents, np.random.default_rng(0).random(400) < 0.5
    scores = text_shift_scores(lambda index: [documents[i] for i in index.tolist()], is_member)
    assert check_shift(scores, is_member).status == "ok"
    assert len({word for text in documents for word in words_of(text)}) > 250


def test_the_tokenizer_can_be_kept_in_a_folder(tmp_path: Path) -> None:
    records = load("letters", n_documents=10, n_secrets=1, tokenizer_folder=str(tmp_path / "base"))
    assert records.text is not None
    assert load_tokenizer(tmp_path / "base").facts == records.text.tokenizer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_secrets": 41}, "n_secrets=41: must be between 0 and n_documents=40"),
        ({"n_digits": 0}, "n_digits=0: must be between 1 and 12"),
        ({"n_digits": 2, "n_alternatives": 100}, "n_alternatives=100: there are 99 other codes of 2 digits"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": "x"}, "seed='x'"),
    ],
)
def test_impossible_corpora_are_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        letters(**{"n_documents": 40, "n_secrets": 2, **options})
