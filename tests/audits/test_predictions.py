"""Saved predictions as the target: the same results as for a trained population, without training."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

import leakscope
from leakscope.audits.predictions import SavedPredictions
from leakscope.data.predictions import Predictions
from leakscope.errors import BankMismatchError, InputError
from leakscope.evaluate.gate import Gate
from leakscope.runs.verification import verify_run
from leakscope.stats.intervals import delong
from tests.cli.command import run_command

N = 400


def saved(n_references: int = 0, leak: float = 2.0, seed: int = 0) -> Predictions:
    """Two classes; each model's margin on a record is the record's own, more where it was trained on."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % 2
    in_mask = rng.random((n_references + 1, N)) < 0.5
    margin = rng.normal(1, 2, N) + leak * in_mask + rng.normal(0, 0.5, in_mask.shape)
    signed = np.where(labels, margin, -margin)
    logits = np.stack([-signed / 2, signed / 2], axis=-1).astype(np.float32)
    return Predictions(
        logits=logits[0],
        labels=labels,
        ids=np.array([f"r{i}" for i in range(N)]),
        is_member=in_mask[0],
        groups={"town": np.array(["a", "b"])[np.arange(N) // 3 % 2]},
        name="saved",
        reference_logits=logits[1:] if n_references else None,
        reference_in_mask=in_mask[1:] if n_references else None,
    )


def test_one_model_alone_is_judged_by_what_needs_no_other(tmp_path: Path) -> None:
    given = saved()
    verdict = leakscope.audit(SavedPredictions(given), out=tmp_path, fpr=(0.1, 0.001))
    assert list(verdict.results.attacks) == ["correctness", "loss", "population"]
    margin = np.where(
        given.labels, given.logits[:, 1] - given.logits[:, 0], given.logits[:, 0] - given.logits[:, 1]
    )
    figures, expected = verdict.results.attacks["loss"], delong(margin, given.is_member)
    auc = figures.auc
    assert auc.value == pytest.approx(roc_auc_score(given.is_member, margin))
    assert (auc.low, auc.high) == pytest.approx((expected.interval.low, expected.interval.high))
    tenth, thousandth = figures.tpr_at_fpr
    assert tenth.low < tenth.value < tenth.high
    assert thousandth.value is None and "below 1/" in thousandth.reason
    assert [group.group for group in figures.groups["town"]] == ["a", "b"]
    assert verdict.summary()[1] == (
        "One model was audited by its outputs on 400 records (saved), "
        f"{given.is_member.sum()} of them members of its training set, without reference models. "
        "This is the weakest kind of audit: attacks that compare a model with reference models detect more. "
        "It can show that a model leaks, but not that it does not."
    )
    assert "random half" not in str(verdict)
    assert verify_run(tmp_path).problems == []


def test_references_make_the_attack_stronger(tmp_path: Path) -> None:
    verdict = leakscope.audit(SavedPredictions(saved(n_references=8)), out=tmp_path)
    attacks = verdict.results.attacks
    assert attacks["eb_lira"].auc.low > attacks["loss"].auc.high
    assert verdict.results.population.models == 9
    assert verdict.results.population.targets == 1
    assert verdict.summary()[1].endswith(", with 8 reference models.")
    table = pl.read_parquet(tmp_path / "records.parquet")
    assert roc_auc_score(table["is_member"], table["score_lira"]) == pytest.approx(attacks["lira"].auc.value)
    assert verify_run(tmp_path).problems == []


def test_what_references_reveal_is_named_and_does_not_rate_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits are measured without the audited model, so they are a figure of its recipe."""
    monkeypatch.setattr(sys.modules[__name__], "N", 1_000)  # whose most exposed 1% can be measured
    verdict = leakscope.audit(SavedPredictions(saved(n_references=8)), out=tmp_path)
    last = verdict.results.leakage.checkpoints[-1]
    assert last.most_exposed.low is not None and last.most_exposed.low > 0.15
    assert "worst" not in {part.about for part in verdict.results.rating.parts}
    (sentence,) = [one for one in verdict.summary() if " bits about " in one]
    assert sentence.startswith(
        "How much models trained like this one reveal was estimated on the 8 reference models alone; it does "
        "not count towards the rating of this model. An output reveals "
    )


@pytest.mark.parametrize("n_references", [2, 4])
def test_too_few_references_for_bits_say_so_and_show_no_zero(tmp_path: Path, n_references: int) -> None:
    """Members leak: a figure of 0.000 bits beside an AUC above 0.7 would be a false comfort."""
    verdict = leakscope.audit(SavedPredictions(saved(n_references, leak=4.0)), out=tmp_path)
    assert (verdict.results.headline.auc.value or 0) > 0.7
    assert verdict.results.leakage.checkpoints[-1].bits.low is None
    said = f"not resolvable with {n_references} models; it takes at least 6"
    texts = [(tmp_path / name).read_text() for name in ("report.html", "report.md")]
    for text in (str(verdict), *texts):
        assert said in text and "0.000 bits" not in text and "0.00 bits" not in text
    assert f"Bits of membership per record: {said}." in texts[0]


def test_bits_of_fewer_than_ten_records_are_not_measured(tmp_path: Path) -> None:
    """The most exposed 1% of 400 records are 4, whose other figures are not measured either."""
    verdict = leakscope.audit(SavedPredictions(saved(n_references=8)), out=tmp_path)
    last = verdict.results.leakage.checkpoints[-1]
    assert last.bits.low is not None and last.most_exposed.value is None
    said = "4 records are too few to measure; it takes at least 10"
    assert last.most_exposed.reason == said
    assert f"the most exposed 1% reveal is not measurable: {said}." in str(verdict)
    assert not any(part.about == "worst" for part in verdict.results.rating.parts)
    assert f"Most exposed 1%: {said}." in (tmp_path / "report.html").read_text()
    assert not verify_run(tmp_path).problems


def test_swapped_labels_are_no_verdict_although_all_models_agree(tmp_path: Path) -> None:
    """The references are as wrong as the target, so a comparison with them shows nothing."""
    given = saved(n_references=8)
    swapped = replace(given, labels=1 - given.labels)
    verdict = leakscope.audit(SavedPredictions(swapped), out=tmp_path, gate=Gate(max_auc=1.0), fpr=(0.1,))
    assert verdict.outcome == "inconclusive"
    accuracy = next(check for check in verdict.results.hygiene if check.name == "accuracy")
    assert (
        accuracy.status == "failed" and "worse than a random guess among the 2 classes" in accuracy.sentence
    )
    assert "swapped" in accuracy.causes[0]


@pytest.mark.parametrize("alike", [True, False])
def test_outputs_in_another_order_than_the_labels_are_no_verdict(tmp_path: Path, alike: bool) -> None:
    """As a shuffling loader returns them. Nothing leaks from them, whatever the models reveal."""
    given, rng = saved(n_references=8), np.random.default_rng(0)
    assert given.reference_logits is not None
    one = rng.permutation(len(given))
    target, *others = (
        logits[one if alike else rng.permutation(len(given))]
        for logits in (given.logits, *given.reference_logits)
    )
    shuffled = replace(given, logits=target, reference_logits=np.stack(others))
    verdict = leakscope.audit(SavedPredictions(shuffled), out=tmp_path, gate=Gate(max_auc=0.8), fpr=(0.1,))
    assert verdict.outcome == "inconclusive"
    accuracy = next(check for check in verdict.results.hygiene if check.name == "accuracy")
    assert accuracy.status == "failed"
    assert accuracy.causes[0] == "the outputs are in another order than the labels"


@pytest.mark.slow
def test_where_nothing_leaks_nothing_is_found(tmp_path: Path) -> None:
    """Mean over a few models, as one in twenty intervals misses."""
    of_runs = [
        leakscope.audit(SavedPredictions(saved(8, leak=0.0, seed=seed)), out=tmp_path / str(seed))
        for seed in range(5)
    ]
    for name in of_runs[0].results.attacks:
        figures = [verdict.results.attacks[name] for verdict in of_runs]
        assert np.mean([one.auc.value for one in figures]) == pytest.approx(0.5, abs=0.04)
        assert max(one.epsilon.general.value for one in figures) < 0.5


def test_references_trained_on_no_record_get_the_attacks_that_need_no_more(tmp_path: Path) -> None:
    given = saved(n_references=4)
    assert given.reference_in_mask is not None
    unseen = replace(given, reference_in_mask=np.zeros_like(given.reference_in_mask))
    verdict = leakscope.audit(SavedPredictions(unseen), out=tmp_path)
    defaults = ["correctness", "loss", "population", "reference", "calibrated", "eb_lira(online=false)"]
    assert list(verdict.results.attacks) == defaults
    assert verdict.results.attacks["calibrated"].auc.low > 0.6
    assert verdict.results.attacks["eb_lira(online=false)"].auc.low > 0.6


def test_a_gate_does_not_pass_without_reference_models(tmp_path: Path) -> None:
    """Not even where the attacks that need none find nothing: stronger ones may."""
    verdict = leakscope.audit(SavedPredictions(saved()), out=tmp_path, gate=Gate(max_auc=1.0), fpr=(0.1,))
    assert verdict.outcome == "inconclusive" and verdict.exit_code == 4
    assert "an audit without reference models is too weak to show that a model is within" in str(verdict)


def test_a_file_is_judged_on_the_command_line_and_may_be_gated(tmp_path: Path) -> None:
    given = saved(n_references=4)
    path = tmp_path / "mine.npz"
    np.savez(path, logits=given.logits, labels=given.labels, is_member=given.is_member,
             reference_logits=given.reference_logits, reference_members=given.reference_in_mask)  # fmt: skip
    done = run_command("audit", "--predictions", path, "--out", tmp_path / "run")
    assert done.exit_code == 0, done
    assert "One model was audited by its outputs on 400 records (mine)" in done.out
    assert "One target ± half the width of its 95% interval over records" in done.out
    assert run_command("verify", tmp_path / "run").exit_code == 0
    gated = leakscope.audit(SavedPredictions(path), out=tmp_path / "run", gate=Gate(max_auc=0.6))
    assert gated.outcome == "failed"
    assert json.loads((tmp_path / "run" / "results.json").read_text())["gate"]["outcome"] == "failed"


def test_mistakes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for given, attacks, named in (
        (replace(saved(), is_member=None), None, "is_member must name members and non-members"),
        (replace(saved(), is_member=np.ones(N, dtype=bool)), None, "members and non-members"),
        (saved(), ("lira",), "reference_logits"),
        (saved(), ("guess",), "choose from"),
    ):
        with pytest.raises(InputError) as error:
            leakscope.audit(SavedPredictions(given), out=out, attacks=attacks)
        assert named in str(error.value)
    assert not out.exists()
    assert run_command("audit").exit_code == 2
    leakscope.audit(SavedPredictions(saved()), out=out)
    with pytest.raises(BankMismatchError):
        leakscope.audit(SavedPredictions(saved(seed=1)), out=out)
