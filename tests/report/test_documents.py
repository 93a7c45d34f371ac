"""Documents token by token: marks, hostile text, redaction, and readers who see no color."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from leakscope.array_types import BoolArray
from leakscope.audits.run import evaluate_and_report
from leakscope.audits.source import Evidence
from leakscope.audits.token_previews import gaps_of
from leakscope.bank.bank import Bank
from leakscope.bank.identity import DesignIdentity, Identity, RecordsIdentity
from leakscope.bank.manifest import BlockNotes, Provenance
from leakscope.bank.run_folder import RUN
from leakscope.data.token_pieces import token_pieces
from leakscope.design import make_design
from leakscope.disclosure import Disclosure
from leakscope.disk.storage import write_json
from leakscope.errors import InputError
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.record_metadata import RecordMetadata
from leakscope.evaluate.verdict import Verdict
from leakscope.frames.text import Secrets
from leakscope.report.blocks import body_html, body_markdown
from leakscope.report.documents import TOKENS, TokenPreviews, level_of, most_changed, tokens_html
from leakscope.runs.kinds import rebuild_report
from leakscope.types import Records
from tests.made_up_text import text_records
from tests.report import page_attacks as reader
from tests.synthetic_runs import HOSTILE

N_DOCUMENTS, N_SECRETS, N_MODELS = 60, 12, 8
EXTRACTED = (20, 31, 45)
"""The documents that a given model continues verbatim."""


def test_marks_grow_with_how_many_times_as_likely_a_token_is() -> None:
    factors = [0.1, 1.0, 1.49, 1.5, 2.0, 4.0, 15.9, 16.0, 1e9]
    assert [level_of(float(np.log(f) + 1e-9)) for f in factors] == [0, 0, 0, 1, 2, 3, 3, 4, 4]
    assert level_of(float("nan")) == level_of(float("-inf")) == 0 and level_of(float("inf")) == 4


def test_hostile_text_is_shown_as_text() -> None:
    pieces = [*HOSTILE, "\x00\x1b[31m", "line\nbreak"]
    for gap in (0.0, 3.0):  # without and with a mark
        html = str(tokens_html(pieces, np.full(len(pieces), gap)))
        assert set(re.findall(r"</?([a-z0-9]+)", html)) <= {"bdi", "span"}
        assert not re.search(r"<[^>]*\son\w+=", html) and "\x1b" not in html and "\u202e" not in html
        shown = unescape(re.sub(r"<[^>]*>", "", html))
        assert "<script>document.title='owned'</script>" in shown and "line\nbreak" in shown
    assert "owned" in most_changed(pieces, np.full(len(pieces), 3.0))


def test_readers_who_see_no_marks_get_the_same_in_words() -> None:
    gaps = np.array([np.nan, np.log(40.0), 0.0, np.log(3.0)])
    previews = TokenPreviews.of(["letter-7"], np.array([False]), [(["The", " code", " is", " 4711"], gaps)])
    html, words = str(body_html(previews.body())), body_markdown(previews.body())
    assert 'title="40 times as likely"> code<' in html and 'title="3.0 times as likely"> 4711<' in html
    for text in (html, words):
        assert "“code” (40 times as likely), “4711” (3.0 times as likely)" in unescape(text)
    assert "The code" not in words and "at least so many times" in words
    calm = TokenPreviews.of(["letter-8"], np.array([False]), [(["a", " b"], np.array([np.nan, 0.1]))])
    assert "No token is 1.5 times as likely" in str(body_html(calm.body()))


def test_secrets_come_first(tmp_path: Path) -> None:
    texts = [(["a"], np.array([np.nan]))] * 3
    previews = TokenPreviews.of(["x", "y", "z"], np.array([False, True, False]), texts)
    words = body_markdown(previews.body())
    order = [words.index(name) for name in ("Planted secrets", "y: ", "Most exposed documents", "x: ", "z: ")]
    assert order == sorted(order)
    previews.write(tmp_path)
    again = TokenPreviews.read(tmp_path)
    assert again is not None and body_markdown(again.body()) == words


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": np.array([0, 2, 1])},
        {"starts": np.array([0, 1])},
        {"pieces": np.array(["a"])},
        {"gaps": np.zeros(5, np.float32)},
        {"titles": np.array([1, 2])},
        {"is_planted": np.array([True])},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_damaged_file_is_one_line_with_a_remedy(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    texts = [(["a"], np.array([np.nan])), (["b", "c"], np.array([np.nan, 0.0]))]
    good = TokenPreviews.of(["x", "y"], np.array([False, False]), texts)
    assert TokenPreviews.read(tmp_path) is None
    replace(good, **changes).write(tmp_path)
    with pytest.raises(InputError, match=f"{TOKENS} cannot be read .*remove it") as caught:
        TokenPreviews.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_gaps_compare_models_with_the_document_and_without_it() -> None:
    log_probs = np.array([[-1.0, -2.0, 0.0], [-3.0, -2.0, 0.0], [-5.0, -3.0, 0.0]])
    gaps = gaps_of(log_probs, np.array([True, False, False]), 3)
    assert np.isnan(gaps[0]) and gaps[1:].tolist() == [3.0, 0.5]
    assert np.isnan(gaps_of(log_probs, np.zeros(3, np.bool_), 3)).all()


def test_pieces_are_the_text_cut_at_the_ends_of_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from leakscope.data.made_up_text import letters

    records = letters(3, 20, 2, tokenizer_folder=str(tmp_path / "words"))
    assert records.text is not None
    for record, pieces in enumerate(token_pieces(records, np.arange(20))):
        assert "".join(pieces) == records.text.documents[record]
        assert len(pieces) == (records.features[record] >= 0).sum()
    (tmp_path / "words" / "tokenizer.json").unlink()
    (numbers,) = token_pieces(records, np.array([5]))
    assert numbers[0] == f"#{records.features[5, 0]} "


def made_up_records() -> Records:
    texts = [f"{HOSTILE[i % 6]} private{i} sentence {'word ' * 18}end" for i in range(N_DOCUMENTS)]
    plain = text_records(texts)
    assert plain.text is not None
    planted = np.arange(N_SECRETS)
    alternatives = np.repeat(plain.features[planted][:, None], 15, axis=1)
    secrets = Secrets(planted, tuple(map(str, planted)), alternatives, np.tile([1, 3], (N_SECRETS, 1)), 99)
    is_canary = np.arange(N_DOCUMENTS) < N_SECRETS
    return replace(plain, is_canary=is_canary, text=replace(plain.text, secrets=secrets))


def made_up_run(
    folder: Path, disclosure: Disclosure, gap: float = 2.0, members: BoolArray | None = None
) -> Verdict:
    """A run of language models whose members' tokens are `exp(gap)` times as likely.

    With `members`, model 0 is given, and these are said to be its members; its outputs do not depend on it.
    """
    records, rng = made_up_records(), np.random.default_rng(0)
    design = make_design("balanced", N_MODELS, N_DOCUMENTS, 0)
    per_token = rng.normal(-3, 0.2, (*design.in_mask.shape, records.features.shape[1] - 1))
    per_token += gap * design.in_mask[..., None]
    log_prob = per_token.mean(axis=-1)
    rank = np.where(design.in_mask, 0, rng.integers(16, size=design.in_mask.shape))
    rank = np.where(records.is_canary, rank, -1)
    zeros = np.zeros(design.in_mask.shape)
    extracted = 1.0 * design.in_mask
    if members is not None:
        design = replace(design, in_mask=np.concatenate([members[None], design.in_mask[1:]]))
        extracted[0] = np.isin(np.arange(N_DOCUMENTS), EXTRACTED)
    signals = {
        "loss": -log_prob, "log_odds": log_prob, "correct": np.full(zeros.shape, 0.4), "base_gap": log_prob,
        "extracted": extracted, "base_extracted": zeros, "secret_rank": rank,
        "base_secret_rank": np.where(records.is_canary, 7, -1) + zeros, "token_log_probs": per_token,
    }  # fmt: skip
    identity = Identity(
        records=RecordsIdentity("letters", N_DOCUMENTS, "5" * 64),
        design=DesignIdentity.of(design),
        recipe={"estimator": "made up", "evaluated_epochs": [1]},
        seed=0,
        signals=tuple(sorted(signals)),
        block_size=N_MODELS,
    )
    folder.mkdir(parents=True)
    write_json(folder / RUN, {"kind": "audit", "config": {}})
    bank = Bank.create(folder, identity, design, records.labels)
    stored = {name: np.asarray(values, np.float32)[:, None] for name, values in signals.items()}
    bank.add_block(0, stored, BlockNotes(seconds=1.0))
    bank.finish(Provenance(device="cpu", versions={"leakscope": "0"}))
    candidates = np.where(records.is_canary, 16, 0)
    labels = np.full(N_DOCUMENTS, "document")
    metadata = RecordMetadata(records.ids, labels, is_canary=records.is_canary, secret_candidates=candidates)
    targets = None if members is None else (0,)
    config = EvaluationConfig("letters", ("loss", "base_model", "lira"), (0.1,), targets)
    return evaluate_and_report(Evidence(bank, metadata, config, records), folder, disclosure)


def test_a_report_of_text_has_secrets_extraction_and_tokens(tmp_path: Path) -> None:
    verdict = made_up_run(tmp_path / "run", Disclosure())
    text = verdict.results.text
    assert text is not None and text.secrets is not None and text.extraction is not None
    assert text.secrets.ranked_first.members.value == text.extraction.share.members.value == 1.0
    assert text.extraction.documents == N_DOCUMENTS - N_SECRETS
    page = (tmp_path / "run" / "report.html").read_text()
    assert "12 planted secrets are the likeliest of 16 candidates 100.0% of the time" in page
    assert 'id="text"' in page and page.count('class="document"') == 5 + 20
    assert "<script>document.title" not in page and 'onerror="document' not in page
    words = (tmp_path / "run" / "report.md").read_text()
    assert "Share of tokens predicted correctly: 40.0% on members" in words
    assert "<script>" not in words


def test_a_redacted_run_reveals_no_text(tmp_path: Path) -> None:
    made_up_run(tmp_path / "run", Disclosure(redacted=True))
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert TOKENS not in {path.name for path in files}
    pages = [path for path in files if path.suffix in (".html", ".md", ".json")]
    assert any(path.name == "report-redacted.html" for path in pages)
    for path in pages:
        assert not re.search(r"private\d|sentence word", path.read_text()), path.name
    page = next(path for path in pages if path.name == "report-redacted.html").read_text()
    assert "A redacted report shows no text." in page and "12 planted secrets are the likeliest" in page


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}"')[1].split("</section>")[0]


@pytest.mark.slow
def test_the_page_of_a_given_model_does_not_say_which_documents_are_members(tmp_path: Path) -> None:
    """The reader queries the model: it continues three documents, and ranks some of 12 secrets first."""
    pages, rng = [], np.random.default_rng(5)
    for name, are_members in (("inside", True), ("outside", False)):
        members = rng.permutation(N_DOCUMENTS) < N_DOCUMENTS // 2
        members[list(EXTRACTED)] = are_members
        text = made_up_run(tmp_path / name, Disclosure(), members=members).results.text
        assert text is not None and text.extraction is not None
        share = text.extraction.share
        assert (share.members.value > 0, share.nonmembers.value > 0) == (are_members, not are_members)
        told = rebuild_report(tmp_path / name, Disclosure(with_membership=True)).read_text()
        assert "Greedy decoding" in section(told, "text"), "with these shares, all three are known"
        pages.append(rebuild_report(tmp_path / name, Disclosure()).read_text())
    for page in pages:
        assert "Greedy decoding" not in page and "planted secrets are the likeliest" not in page
        assert "Among the 12 canaries" not in page
        assert "fewer than 20 secrets or extracted documents are left out" in section(page, "text")
    # What is left about documents, which ones are shown and how they are marked, is the same for both lists.
    assert section(pages[0], "text") == section(pages[1], "text")


def test_a_redacted_page_of_documents_names_none_of_them(tmp_path: Path) -> None:
    """Neither words, nor ids, nor a list with one entry per document, nor the place of a secret."""
    made_up_run(tmp_path / "run", Disclosure())
    page = rebuild_report(tmp_path / "run", Disclosure(redacted=True)).read_text()
    private, records = (tmp_path / "run" / "report.html").read_text(), made_up_records()
    assert re.search(r"#\d+ ", section(private, "text")), "the private page has tokens, by their numbers"
    assert not re.search(r"#\d+ ", section(page, "text"))
    ids = [f">{name}<" for name in records.ids.tolist()]
    assert any(name in private for name in ids) and not any(name in page for name in ids)
    assert reader.arrays(private) and not reader.arrays(page)
    assert 'class="document"' not in page and "times as likely" not in page
