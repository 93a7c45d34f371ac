"""The study of fine-tuned language models: at a tiny size, and its judge where the truth is known."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from leakscope.design import make_design
from leakscope.studies.claims import Outcome

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
EPOCHS = [1, 2, 4]


@pytest.fixture
def study(monkeypatch):
    """The modules of the study, which import one another as scripts do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import text_study
    import text_study_claims
    import text_study_corpus
    import text_study_judge
    import text_study_page

    return SimpleNamespace(
        script=text_study,
        claims=text_study_claims,
        corpus=text_study_corpus,
        judge=text_study_judge,
        page=text_study_page,
    )


def words(rng, n_words):
    return " ".join(rng.choice([f"w{i}" for i in range(300)], n_words))


def site_with_packages(folder, corpus):
    """Four packages on each side, 20 documents each; one private document is a copy of a public one."""
    rng, texts = np.random.default_rng(0), {}
    names = [f"package{i}" for i in range(60)]
    chosen = [n for n in names if corpus.is_private(n)][:4] + [n for n in names if not corpus.is_private(n)][
        :4
    ]
    for name in chosen:
        texts[name] = [words(rng, 150) for _ in range(20)]
    texts[chosen[0]][0] = texts[chosen[-1]][0] + " and more"
    for name, own in texts.items():
        (folder / name).mkdir(parents=True)
        functions = [f'def f{i}():\n    """{text}"""\n' for i, text in enumerate(own)]
        (folder / name / "module.py").write_text("\n".join(functions))
    return texts, chosen


def test_no_private_document_has_a_twin_among_the_public_ones(study, tmp_path, monkeypatch):
    texts, chosen = site_with_packages(tmp_path / "site", study.corpus)
    monkeypatch.setattr(study.corpus, "STANDARD_FOLDER", tmp_path / "site" / chosen[-1])
    documents = list(study.corpus.documents_of(tmp_path / "site", 1000))
    assert {d.package for d in documents} == {*texts, study.corpus.STANDARD}
    left = study.corpus.distinct(documents)
    private = [d.text for d in left if study.corpus.is_private(d.package)]
    assert len(private) == 4 * 20 - 1
    assert texts[chosen[0]][0] not in private
    assert len(left) == 8 * 20 - 1  # the standard library here has the documents of a package


def population(name, leak, slope, halves=1, n_records=400, n_models=8):
    """Signals of fine-tunes whose validation loss falls by `slope` per epoch, and members' by `leak` more."""
    rng = np.random.default_rng(len(name))
    base_loss = 3 + 0.5 * np.random.default_rng(0).normal(size=n_records)
    in_mask = np.concatenate(
        [make_design("bernoulli", n_models, n_records, s).in_mask for s in range(halves)]
    )
    learned = [base_loss - slope * epoch - leak * epoch * in_mask for epoch in EPOCHS]
    loss = np.stack(learned, axis=1) + 0.02 * rng.normal(size=(len(in_mask), len(EPOCHS), n_records))
    noise = {key: rng.normal(size=loss.shape).astype(np.float32)
             for key in ("error_gap", "lowest_log_probs", "standardized_lowest")}  # fmt: skip
    about = {
        "name": name, "family": name, "halves": halves, "rank": 8, "epsilon": None, "rate": 1e-3,
        "epochs": EPOCHS, "privacy_spent": None, "notes": [], "device": "cpu", "seconds": 1.0,
    }  # fmt: skip
    return {"in_mask": in_mask, "base_loss": base_loss, "loss": loss.astype(np.float32),
            "about": np.array(json.dumps(about)), **noise}  # fmt: skip


@pytest.fixture
def home(tmp_path):
    """LoRA learns half as fast as full fine-tuning, and leaks as much at the same validation loss."""
    folder = tmp_path / "home"
    folder.mkdir()
    np.savez(folder / "lora-8.npz", **population("lora-8", leak=0.005, slope=0.05, halves=2))
    np.savez(folder / "full.npz", **population("full", leak=0.01, slope=0.1))
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    empty = np.zeros(1, dtype=np.uint16)
    np.savez(corpus / "corpus.npz", public=empty, held_out=empty, tokens=np.zeros((400, 8), dtype=np.int32),
             zlib_bytes=np.full(400, 50), vocabulary=np.array(10))  # fmt: skip
    return folder, corpus


@pytest.mark.slow
def test_full_fine_tuning_is_compared_as_soon_as_it_is_as_good(study, home):
    """Full fine-tuning after 2 epochs has the loss and the leakage of LoRA after 4."""
    judge = study.judge.Judge(*home)
    rows = list(judge.between_populations())
    at = {row["when"]: row for row in rows if row["attack"] == "eb_lira"}
    assert at["epoch 2"]["auc"][2] < 0  # after as many epochs, LoRA leaks less
    compared = at[study.claims.AS_GOOD]
    first = next(epoch for epoch, loss in zip(EPOCHS, judge.validation("full"), strict=True)
                 if loss <= min(judge.validation("lora-8")))  # fmt: skip
    full = judge.of("full", EPOCHS.index(first), "eb_lira", 8).figures["auc"][0]
    assert compared["full"][0] == pytest.approx(full, abs=1e-6)
    assert compared["own"][0] == pytest.approx(
        judge.of("lora-8", 2, "eb_lira", 8).figures["auc"][0], abs=1e-6
    )


def test_attacks_on_noise_are_as_good_as_guessing(study, home):
    judge = study.judge.Judge(*home)
    found = judge.of("full", 2, "ez_mia", 8).figures
    assert found["auc"][1] < 0.5 < found["auc"][2]
    assert found["tpr_1"][1] < 0.01 < found["tpr_1"][2]
    assert judge.of("full", 2, "eb_lira", 8).figures["auc"][1] > 0.8


@pytest.mark.slow
def test_with_more_references_attacks_get_better(study, home):
    judge = study.judge.Judge(*home)
    rows = list(study.judge.with_few(judge.fine["lora-8"], 2, judge.zlib_bytes, 8))
    aucs = [row["auc"][0] for row in rows if row["attack"] == "eb_lira"]
    assert len(aucs) == 4 and aucs[-1] > aucs[0]


@pytest.mark.parametrize(
    ("interval", "factor", "outcome"),
    [
        ([-0.5, -0.6, -0.4], [60, 40, 80], Outcome.REPRODUCED),
        ([-0.5, -0.6, -0.4], [5, 4, 6], Outcome.SAME_DIRECTION),
        ([-0.1, -0.3, 0.1], [2, 0.5, 80], Outcome.NOT_REPRODUCED),
        ([0.5, 0.4, 0.6], [0.2, 0.1, 0.3], Outcome.REFUTED),
    ],
)
def test_verdicts_follow_from_the_intervals(study, interval, factor, outcome):
    row = {
        "population": "lora-8", "attack": "ez_mia", "when": "epoch 8", "tpr_01": interval,
        "own": [0.6, 0.1, 0.01], "full": [0.9, 0.8, 0.6], "ratios": [[1, 1, 1], factor],
    }  # fmt: skip
    results = {"populations": [{"population": "full", "epoch": 8}], "between_populations": [row]}
    assert study.claims.settle_lora(results, study.claims.LORA, "ez_mia").outcome is outcome


def test_the_page_is_that_of_the_committed_results(study):
    results = json.loads(study.script.RESULTS.read_text())
    assert study.page.page_of(results) == study.script.PAGE.read_text()


@pytest.mark.slow
def test_the_whole_study_runs_at_a_tiny_size_and_resumes(study, tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    site_with_packages(tmp_path / "site", study.corpus)
    monkeypatch.setattr(study.corpus, "STANDARD_FOLDER", tmp_path / "none")

    def run(*arguments):
        options = {
            "--corpus": "corpus", "--out": "", "--home": "home", "--results": "text.json",
            "--page": "docs/page.md",
        }  # fmt: skip
        places = [part for name, path in options.items() for part in (name, str(tmp_path / path))]
        monkeypatch.setattr(sys, "argv", ["text_study.py", *arguments, *places, "--tiny"])
        study.script.main()

    run("corpus", "--site", str(tmp_path / "site"))
    train = ["train", "--device", "cpu", "--population", "lora-8", "--population", "full"]
    with pytest.raises(SystemExit, match="3"):
        run(*train, "--seconds", "0")
    run(*train)
    assert "lora-8" in capsys.readouterr().out
    run("judge")
    (tmp_path / "docs").mkdir()
    run("page")
    page = (tmp_path / "docs" / "page.md").read_text()
    assert "LoRA minus full fine-tuning" in page and "8 claims" in page
    assert (tmp_path / "docs" / "images" / "text_study.png").stat().st_size > 1000
